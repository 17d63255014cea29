#include "protocol/slices/replica_plan.h"

#include <algorithm>
#include <numeric>

#include "protocol/slices/rebalance.h"

namespace leat::protocol {

namespace {

// A difference that rounding explains, as a part of all load.
constexpr double kNoLoad = 1e-9;

class ReplicaPlan {
 public:
  explicit ReplicaPlan(const ReplicaBalance& balance)
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

  void Level() {
    while (LevelOne()) {
    }
  }

  std::vector<ReplicaChange> Changes() const {
    std::vector<ReplicaChange> changes;
    for (uint32_t i = 0; i < place_.size(); ++i) {
      if (place_[i] != balance_.slices[i].replica) changes.push_back({i, place_[i]});
    }
    return changes;
  }

 private:
  bool Takes(uint32_t server, const ReplicaBalance::Slice& slice) const {
    if (server >= loads_.size() || balance_.weights[server] <= 0 || server == slice.server) return false;
    return balance_.allowed.empty() || balance_.allowed[slice.server][server];
  }
  double Fullness(uint32_t server) const { return loads_[server] / balance_.weights[server]; }

  std::optional<uint32_t> LeastFull(const ReplicaBalance::Slice& slice) const {
    std::optional<uint32_t> least;
    for (uint32_t server = 0; server < loads_.size(); ++server) {
      if (!Takes(server, slice)) continue;
      if (!least || Fullness(server) < Fullness(*least) - kNoLoad) least = server;
    }
    return least;
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
      if (!to || *to == from || slice.load <= kNoLoad) continue;
      const double share = total_ * balance_.weights[from] / weights;
      if (loads_[from] <= (1 + kImbalance) * share + kNoLoad) continue;
      const double after = (loads_[*to] + slice.load) / balance_.weights[*to];
      if (after > (loads_[from] - slice.load) / balance_.weights[from] + kNoLoad) continue;
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

  const ReplicaBalance& balance_;
  std::vector<double> loads_;                   // loads of replicas, by server
  std::vector<std::optional<uint32_t>> place_;  // by slice
  double total_ = 0;
};

}  // namespace

std::vector<ReplicaChange> PlanReplicaChanges(const ReplicaBalance& balance) {
  ReplicaPlan plan(balance);
  plan.Fill();
  plan.Level();
  return plan.Changes();
}

}  // namespace leat::protocol
