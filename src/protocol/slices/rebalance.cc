#include "protocol/slices/rebalance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace leat::protocol {

namespace {

// A difference that rounding explains, as a part of all load.
constexpr double kNothing = 1e-9;
// A move that overshoots must leave at most this part of the larger difference.
constexpr double kWorthwhile = 0.9;
constexpr double kBytesPerRequest = 64;  // as traffic
constexpr double kNewest = 0.25;         // weight of the last report in the mean of the traffic

class Servers {
 public:
  explicit Servers(const Balance& balance)
      : loads_(balance.weights.size()), shares_(balance.weights), slices_(balance.weights.size()) {
    double load = 0;
    for (uint32_t i = 0; i < balance.slices.size(); ++i) {
      const auto& slice = balance.slices[i];
      loads_[slice.server] += slice.load;
      load += slice.load;
      slices_[slice.server].emplace_back(slice.load, i);
    }
    const double weights = std::accumulate(shares_.begin(), shares_.end(), 0.0);
    for (double& share : shares_) share *= weights > 0 ? load / weights : 0;
    for (auto& slices : slices_) std::ranges::sort(slices);
  }

  bool any() const {
    return std::ranges::any_of(shares_, [](double share) { return share > 0; });
  }
  double Excess(uint32_t server) const { return loads_[server] - shares_[server]; }
  double Share(uint32_t server) const { return shares_[server]; }
  size_t size() const { return loads_.size(); }

  // Returns the server with a share that would be the least full with so much more.
  uint32_t LeastWith(double more) const {
    std::optional<uint32_t> least;
    const auto fullness = [&](uint32_t server) { return (loads_[server] + more) / shares_[server]; };
    for (uint32_t server = 0; server < size(); ++server) {
      if (shares_[server] <= 0) continue;
      if (!least || fullness(server) < fullness(*least) - kNothing) least = server;
    }
    return *least;
  }

  // The slices of the server, largest first.
  std::vector<std::pair<double, uint32_t>> All(uint32_t server) const {
    auto all = slices_[server];
    std::ranges::stable_sort(all, [](const auto& a, const auto& b) { return a.first > b.first; });
    return all;
  }
  // A slice that brings both servers closer to their shares: without a remainder if there is one, else the
  // smallest, if that helps all the same.
  std::optional<std::pair<double, uint32_t>> Between(uint32_t from, uint32_t to) const {
    const auto& slices = slices_[from];
    const double excess = Excess(from), lacking = -Excess(to), most = std::min(excess, lacking);
    if (most <= kNothing) return std::nullopt;
    const auto above =
        std::ranges::upper_bound(slices, most + kNothing, {}, [](const auto& slice) { return slice.first; });
    if (above != slices.begin() && std::prev(above)->first > kNothing) return *std::prev(above);
    if (above == slices.end()) return std::nullopt;
    const double remains = std::max(std::abs(excess - above->first), std::abs(above->first - lacking));
    if (remains > kWorthwhile * std::max(excess, lacking)) return std::nullopt;
    return *above;
  }
  void Move(const std::pair<double, uint32_t>& slice, uint32_t from, uint32_t to) {
    loads_[from] -= slice.first;
    loads_[to] += slice.first;
    slices_[from].erase(std::ranges::lower_bound(slices_[from], slice));
    slices_[to].insert(std::ranges::lower_bound(slices_[to], slice), slice);
  }

 private:
  std::vector<double> loads_, shares_;                            // by server
  std::vector<std::vector<std::pair<double, uint32_t>>> slices_;  // by server: loads and slices, ordered
};

class ReplicaPlan {
 public:
  explicit ReplicaPlan(const Balance& balance)
      : balance_(balance), loads_(balance.weights.size()), place_(balance.slices.size()) {
    for (size_t i = 0; i < place_.size(); ++i) {
      const auto& slice = balance.slices[i];
      total_ += slice.load;
      if (!slice.replica || !Takes(*slice.replica, slice)) continue;
      place_[i] = slice.replica;
      loads_[*place_[i]] += slice.load;
    }
  }

  // The largest first.
  void Fill() {
    std::vector<uint32_t> missing;
    for (uint32_t i = 0; i < place_.size(); ++i) {
      if (!place_[i]) missing.push_back(i);
    }
    std::ranges::stable_sort(
        missing, [&](uint32_t a, uint32_t b) { return balance_.slices[a].load > balance_.slices[b].load; });
    for (const uint32_t i : missing) {
      place_[i] = LeastFull(balance_.slices[i]);
      if (place_[i]) loads_[*place_[i]] += balance_.slices[i].load;
    }
  }

  // Moves the largest replica that brings two servers closer together, if they are far from each other.
  bool LevelOne() {
    const double weights = std::accumulate(balance_.weights.begin(), balance_.weights.end(), 0.0);
    std::optional<uint32_t> best;
    uint32_t best_to = 0;
    for (uint32_t i = 0; i < place_.size(); ++i) {
      if (!place_[i]) continue;
      const auto& slice = balance_.slices[i];
      const uint32_t from = *place_[i];
      const std::optional<uint32_t> to = LeastFull(slice);
      if (!to || *to == from || slice.load <= kNothing) continue;
      const double share = total_ * balance_.weights[from] / weights;
      if (loads_[from] <= (1 + kImbalance) * share + kNothing) continue;
      const double after = (loads_[*to] + slice.load) / balance_.weights[*to];
      if (after > (loads_[from] - slice.load) / balance_.weights[from] + kNothing) continue;
      if (best && slice.load <= balance_.slices[*best].load) continue;
      best = i;
      best_to = *to;
    }
    if (!best) return false;
    loads_[*place_[*best]] -= balance_.slices[*best].load;
    loads_[best_to] += balance_.slices[*best].load;
    place_[*best] = best_to;
    return true;
  }

  std::vector<ReplicaChange> Changes() const {
    std::vector<ReplicaChange> changes;
    for (uint32_t i = 0; i < place_.size(); ++i) {
      if (place_[i] != balance_.slices[i].replica) changes.push_back({i, place_[i]});
    }
    return changes;
  }

 private:
  bool Takes(uint32_t server, const Balance::Slice& slice) const {
    if (server >= loads_.size() || balance_.weights[server] <= 0 || server == slice.server) return false;
    return balance_.allowed.empty() || balance_.allowed[slice.server][server];
  }
  double Fullness(uint32_t server) const { return loads_[server] / balance_.weights[server]; }

  std::optional<uint32_t> LeastFull(const Balance::Slice& slice) const {
    std::optional<uint32_t> least;
    for (uint32_t server = 0; server < loads_.size(); ++server) {
      if (!Takes(server, slice)) continue;
      if (!least || Fullness(server) < Fullness(*least) - kNothing) least = server;
    }
    return least;
  }

  const Balance& balance_;
  std::vector<double> loads_;                   // loads of replicas, by server
  std::vector<std::optional<uint32_t>> place_;  // by slice
  double total_ = 0;
};

}  // namespace

bool OutOfBalance(const Balance& balance) {
  const Servers servers(balance);
  for (uint32_t server = 0; server < servers.size(); ++server) {
    if (std::abs(servers.Excess(server)) > kImbalance * servers.Share(server) + kNothing) return true;
  }
  return false;
}

std::vector<SliceMove> PlanMoves(const Balance& balance, bool level) {
  Servers servers(balance);
  std::vector<SliceMove> moves;
  if (!servers.any()) return moves;
  std::vector<uint32_t> moved, place;  // slices in the order of their first move, and where each of all is
  for (const auto& slice : balance.slices) place.push_back(slice.server);
  const auto move = [&](const std::pair<double, uint32_t>& slice, uint32_t from, uint32_t to) {
    servers.Move(slice, from, to);
    if (place[slice.second] == balance.slices[slice.second].server) moved.push_back(slice.second);
    place[slice.second] = to;
  };
  std::vector<uint32_t> fullest;
  for (uint32_t server = 0; server < servers.size(); ++server) {
    if (servers.Share(server) > 0) {
      fullest.push_back(server);
      continue;
    }
    for (const auto& slice : servers.All(server)) move(slice, server, servers.LeastWith(slice.first));
  }
  // Each round brings two servers closer to their shares.
  for (bool found = level; found;) {
    std::ranges::stable_sort(fullest,
                             [&](uint32_t a, uint32_t b) { return servers.Excess(a) > servers.Excess(b); });
    const uint32_t to = fullest.back();
    found = false;
    for (const uint32_t from : fullest) {
      const auto slice = servers.Between(from, to);
      if (!slice) continue;
      move(*slice, from, to);
      found = true;
      break;
    }
  }
  for (const uint32_t slice : moved) {
    const uint32_t from = balance.slices[slice].server;
    if (place[slice] != from) moves.push_back({slice, from, std::exchange(place[slice], from)});
  }
  return moves;
}

std::vector<ReplicaChange> PlanReplicaChanges(const Balance& balance) {
  ReplicaPlan plan(balance);
  plan.Fill();
  while (plan.LevelOne()) {
  }
  return plan.Changes();
}

// ---- loads

std::vector<double> SliceLoads(const std::vector<uint64_t>& bytes, const std::vector<double>& traffic) {
  const double all_bytes = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  const double all_traffic = std::accumulate(traffic.begin(), traffic.end(), 0.0);
  std::vector<double> loads;
  loads.reserve(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    double load = all_bytes > 0 ? static_cast<double>(bytes[i]) / all_bytes : 0;
    if (all_traffic > 0) load = (load + traffic[i] / all_traffic) / 2;
    loads.push_back(load);
  }
  return loads;
}

void TrafficMeter::OnReport(Time now, NodeId server, const std::vector<SliceTraffic>& traffic) {
  for (const SliceTraffic& reported : traffic) {
    if (reported.slice.value >= slices_.size()) continue;
    Slice& slice = slices_[reported.slice.value];
    const double total =
        static_cast<double>(reported.bytes) + kBytesPerRequest * static_cast<double>(reported.pushes);
    // The totals begin anew with each server.
    if (slice.server == server && total >= slice.total && now > slice.at) {
      const double rate = (total - slice.total) / Seconds(now - slice.at);
      slice.rate = slice.rate < 0 ? rate : (1 - kNewest) * slice.rate + kNewest * rate;
    }
    slice.server = server;
    slice.total = total;
    slice.at = now;
  }
}

std::vector<double> TrafficMeter::Rates() const {
  std::vector<double> rates;
  rates.reserve(slices_.size());
  for (const Slice& slice : slices_) {
    if (slice.rate < 0) return {};
    rates.push_back(slice.rate);
  }
  return rates;
}

}  // namespace leat::protocol
