// The counting model: the gradient of a batch is −(its good records) for every element and the rate is 1, so
// that each parameter is the number of records that counted. Whatever is lost or counted twice shows.
//
// In stepped strategies it also looks, at every batch, whether the worker has the values that the strategy
// promises it: of the right step, and the same in all slices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/cut.h"
#include "protocol/slices.h"
#include "sim/cluster/cluster.h"
#include "sim/workload.h"

namespace leat::sim {

// Slices of a few variables, at least `slices` in all.
protocol::SliceTable CountingTable(uint32_t slices);

// What training a batch, or a run of them, comes to. Depends on the events alone: some records are bad, and
// one in `poison` (0: none) spoils the gradient of whatever it is in.
protocol::BatchOutcome CountBatch(const protocol::Cut& cut, uint32_t batch, uint32_t poison);
protocol::BatchOutcome CountRun(const protocol::Cut& cut, uint32_t run, uint32_t poison);

class CountingWorkload final : public Workload {
 public:
  CountingWorkload(protocol::SliceTable table, protocol::StrategyConfig strategy);
  ~CountingWorkload() override;
  std::unique_ptr<WorkerMemory> Join() override;

  // A job ends when several gradients in a row are spoilt, so the larger a step, the rarer they are; and
  // where some of its lanes may stay out, a spoilt one would skip it by chance.
  uint32_t poison() const;
  // What a worker has seen that must not be; empty: nothing.
  const std::string& error() const { return error_; }
  // The most steps that a batch was computed ahead of the values it was computed on.
  uint64_t most_ahead() const { return most_ahead_; }

 private:
  class Memory;

  protocol::SliceTable table_;
  protocol::StrategyConfig strategy_;
  uint64_t elements_ = 0;
  std::map<uint64_t, float> value_at_;  // by version, of all slices of all lives
  std::string error_;
  uint64_t most_ahead_ = 0;
};

// After a run: none when the newest checkpoint holds every event of the stream exactly once, in every
// element of every slice, and nothing is open. Cuts have to join without gap or overlap.
std::optional<Violation> CheckCounts(const Cluster& cluster, const ClusterOptions& options,
                                     const CountingWorkload& workload);

}  // namespace leat::sim
