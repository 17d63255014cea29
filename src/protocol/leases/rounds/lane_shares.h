// How many lanes of a step each worker has, and which.
//
// Shares are even until the workers' speeds are known. Then a worker that is faster than others has more
// lanes than they, if steps take a shorter time so, and each still has one. The result is the same whichever
// worker computes a lane.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace leat::protocol {

class LaneShares {
 public:
  // A worker's speed is measured over at least this time and this many batches.
  static constexpr Duration kWindow = std::chrono::seconds(5);
  static constexpr uint64_t kBatches = 16;
  // Shares change if the slowest worker's part of a step takes at most this fraction of the time before.
  static constexpr double kWorthIt = 0.8;

  // The workers that take lanes, by rank.
  void SetWorkers(std::vector<NodeId> workers);
  size_t workers() const { return workers_.size(); }
  // Takes a worker's progress since it joined: batches, and the time in which it had none to compute.
  void OnProgress(Time now, NodeId worker, uint64_t batches, double waited_s);
  void Forget(NodeId worker) { paces_.erase(worker); }
  // Chooses the shares of steps of this width anew, if speeds have been measured since the last time.
  void Choose(uint32_t width);

  // The lanes of a worker: first to second.
  std::pair<uint32_t, uint32_t> LanesOf(uint32_t rank, uint32_t width) const;
  // Workers have as many lanes as others, or one more.
  bool even(uint32_t width) const { return ends_.empty() || ends_.back() != width; }
  // The fewest and the most lanes that it should have.
  std::pair<uint32_t, uint32_t> CountOf(uint32_t rank, uint32_t width) const;

 private:
  struct Pace {
    Time since{0};
    uint64_t batches = 0;  // then
    double waited_s = 0;   // then
    double batch_s = 0;    // 0: unknown
  };

  // The time of a step of the slowest worker.
  double StepTime(const std::vector<double>& batch_s, const std::vector<uint32_t>& counts) const;

  std::vector<NodeId> workers_;
  std::map<NodeId, Pace> paces_;
  std::vector<uint32_t> ends_;  // chosen: the end of each worker's lanes; empty: even shares
  bool measured_ = false;       // since Choose
};

}  // namespace leat::protocol
