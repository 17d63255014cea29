// The counting model: the gradient of a batch is −(its number of good records) for every element, and the
// learning rate is 1, so each parameter is the number of records counted. Lost or repeated records change it,
// and so does a record that is trained with another rate than the journal gives it. A table with moments has
// those of a number that each record has, the same in all records of a batch.
//
// In stepped strategies it also checks at every batch that the worker has the values that the strategy
// promises: of the right step, and of the same version in all slices.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "lab/sim/cluster/cluster.h"
#include "protocol/cut.h"
#include "protocol/slices.h"

namespace leat::sim {

// A few variables with at least `slices` slices in all. `moments`: also a variable of moments.
protocol::SliceTable CountingTable(uint32_t slices, bool moments = false);

// The outcome of training a batch, or a run. A function of the events: some records are bad, and one in
// `poison` (0: none) makes the gradient non-finite.
protocol::BatchOutcome CountBatch(const protocol::Cut& cut, uint32_t batch, uint32_t poison);
protocol::BatchOutcome CountRun(const protocol::Cut& cut, uint32_t run, uint32_t poison);

class CountingWorkload final : public Workload {
 public:
  CountingWorkload(protocol::SliceTable table, protocol::StrategyConfig strategy);
  ~CountingWorkload() override;
  std::unique_ptr<WorkerMemory> Join() override;
  void OnLanes(const protocol::LanesSet& set) override;

  // The job ends after several consecutive non-finite gradients, so they must be rarer the larger a step is.
  // With backup workers they would be skipped at random, so there are none.
  uint32_t poison() const;
  // A violated promise seen by a worker; empty: none.
  const std::string& error() const { return error_; }
  // The maximum number of steps between a batch and the values it was computed on.
  uint64_t most_ahead() const { return most_ahead_; }

 private:
  class Memory;

  protocol::SliceTable table_;
  protocol::StrategyConfig strategy_;
  uint64_t elements_ = 0;
  std::optional<uint64_t> moments_at_;  // offset of the variable of moments among the elements
  std::map<uint64_t, float> value_at_;  // by version, of all incarnations of all slices, with these lanes
  std::string error_;
  uint64_t most_ahead_ = 0;
};

// After a run: none if the newest checkpoint has every event of the stream exactly once in every element of
// every slice, with nothing open, and the cuts are contiguous.
std::optional<Violation> CheckCounts(const Cluster& cluster, const ClusterOptions& options,
                                     const CountingWorkload& workload);

}  // namespace leat::sim
