#include "protocol/topology/near_partitions.h"

#include <limits>
#include <optional>

namespace leat::topology {

namespace {

// The cheapest flow, by shortest augmenting paths. Costs are whole numbers, so there is no rounding.
class CheapestFlow {
 public:
  explicit CheapestFlow(size_t nodes) : edges_of_(nodes) {}

  // The index of the edge.
  size_t Add(size_t from, size_t to, int64_t room, int64_t cost) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({from, to, room, cost});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({to, from, 0, -cost});
    return edges_.size() - 2;
  }
  bool Full(size_t edge) const { return edges_[edge].room == 0; }

  // Each path takes one unit: the edges that leave `source` have room for one.
  void Run(size_t source, size_t sink) {
    while (const auto path = ShortestPath(source, sink)) {
      for (const size_t edge : *path) {
        --edges_[edge].room;
        ++edges_[edge ^ 1].room;
      }
    }
  }

 private:
  struct Edge {
    size_t from, to;
    int64_t room, cost;
  };

  std::optional<std::vector<size_t>> ShortestPath(size_t source, size_t sink) const {
    constexpr int64_t kUnreached = std::numeric_limits<int64_t>::max();
    constexpr size_t kNoEdge = std::numeric_limits<size_t>::max();
    std::vector<int64_t> cost(edges_of_.size(), kUnreached);
    std::vector<size_t> by(edges_of_.size(), kNoEdge), queue{source};
    std::vector<bool> queued(edges_of_.size());
    cost[source] = 0;
    for (size_t next = 0; next < queue.size(); ++next) {
      const size_t node = queue[next];
      queued[node] = false;
      for (const size_t index : edges_of_[node]) {
        const Edge& edge = edges_[index];
        if (edge.room == 0 || cost[node] + edge.cost >= cost[edge.to]) continue;
        cost[edge.to] = cost[node] + edge.cost;
        by[edge.to] = index;
        if (!queued[edge.to]) queue.push_back(edge.to);
        queued[edge.to] = true;
      }
    }
    if (by[sink] == kNoEdge) return std::nullopt;
    std::vector<size_t> path;
    for (size_t node = sink; node != source; node = edges_[by[node]].from) path.push_back(by[node]);
    return path;
  }

  std::vector<Edge> edges_;  // an edge and, at the odd index after it, its reverse
  std::vector<std::vector<size_t>> edges_of_;
};

}  // namespace

Distance DistanceTo(const HostPlace& worker, const PartitionPlaces& copies) {
  if (copies.empty()) return Distance::kZone;
  Distance least = Distance::kFar;
  for (const HostPlace& copy : copies) {
    if (SameZone(worker, copy)) return Distance::kZone;
    if (SameSite(worker, copy)) least = Distance::kSite;
  }
  return least;
}

std::vector<uint32_t> NearPartitions(const std::vector<HostPlace>& workers,
                                     const std::vector<PartitionPlaces>& partitions,
                                     const std::vector<uint32_t>& before) {
  if (workers.empty()) return {};
  // A far partition costs more than all partitions that are in another zone, and a partition in another zone
  // more than all that change their worker.
  const auto more_than_all = static_cast<int64_t>(partitions.size()) + 1;
  const int64_t costs[] = {0, more_than_all, more_than_all * more_than_all};
  const size_t source = 0, sink = 1, extra = 2, first_worker = 3;
  const size_t first_partition = first_worker + workers.size();
  CheapestFlow flow(first_partition + partitions.size());
  // Each worker has the share that all have, and some have one more.
  const auto share = static_cast<int64_t>(partitions.size() / workers.size());
  flow.Add(extra, sink, static_cast<int64_t>(partitions.size() % workers.size()), 0);
  for (size_t w = 0; w < workers.size(); ++w) {
    flow.Add(first_worker + w, sink, share, 0);
    flow.Add(first_worker + w, extra, 1, 0);
  }
  std::vector<std::vector<size_t>> edges(partitions.size());
  for (size_t p = 0; p < partitions.size(); ++p) {
    flow.Add(source, first_partition + p, 1, 0);
    for (size_t w = 0; w < workers.size(); ++w) {
      const bool stays = p < before.size() && before[p] == w;
      const int64_t cost = costs[static_cast<size_t>(DistanceTo(workers[w], partitions[p]))];
      edges[p].push_back(flow.Add(first_partition + p, first_worker + w, 1, cost + (stays ? 0 : 1)));
    }
  }
  flow.Run(source, sink);
  std::vector<uint32_t> assigned(partitions.size());
  for (size_t p = 0; p < partitions.size(); ++p) {
    for (uint32_t w = 0; w < workers.size(); ++w) {
      if (flow.Full(edges[p][w])) assigned[p] = w;
    }
  }
  return assigned;
}

}  // namespace leat::topology
