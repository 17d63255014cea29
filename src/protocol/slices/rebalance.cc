#include "protocol/slices/rebalance.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace leat::protocol {

namespace {

// A difference that rounding explains, as a part of all load.
constexpr double kNothing = 1e-9;
// A move that overshoots must leave at most this part of the larger difference.
constexpr double kWorthwhile = 0.9;

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

}  // namespace leat::protocol
