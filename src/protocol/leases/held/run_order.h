// Which run of its leases a worker computes next, what the run needs before, and when its split is over.
//
// Without steps: the runs of the oldest split that is ready. Stepped: a run of the lowest step. It needs all
// slices at the step's version (ssp: up to `ahead` less), and is skipped once its step is complete; its lease
// is released once every slice has completed the lease's last step. With backup workers, slice 0's server
// decides which lanes count in a step, and the workers tell the other servers. Invariant: a run is begun only
// while no other one is active. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/leases/held/held_splits.h"
#include "protocol/push/current_run.h"

namespace leat::protocol {

class RunOrder {
 public:
  // `always_pull`: as in WorkerConfig. The other arguments outlive it.
  RunOrder(const StrategyConfig& strategy, Duration retry_interval, bool always_pull, HeldSplits& splits,
           SliceVersions& versions, Exchanges& exchanges, CurrentRun& run, WorkerOutbox& outbox)
      : strategy_(strategy),
        retry_interval_(retry_interval),
        always_pull_(always_pull),
        splits_(splits),
        versions_(versions),
        exchanges_(exchanges),
        run_(run),
        outbox_(outbox) {}

  // Starts what is next, while the worker is idle. False if there is nothing to do but wait; true if
  // something was started, or a split ended.
  bool Advance(Time now) { return strategy_.stepped() ? AdvanceSteps(now) : AdvanceRuns(now); }
  // A batch of the current run has been computed. Pushes the run after its last batch.
  void OnBatch(Time now, const BatchOutcome& outcome);
  // All servers have answered a push. Pushes again to slices that have not taken the run, or ends it.
  void FinishPush(Time now, bool leaving);
  // Gives up a pull or push whose reply waits for others, if they may be waiting for this worker; see
  // Exchanges::InterruptibleFrom. True if the worker is idle now.
  bool Interrupt(Time now, bool leaving);
  // Stepped: a reply may name the lanes that count in a step.
  void TakeCounted(Time now, const Exchange& exchange, const PushReply& reply);
  void OnView() { last_pull_.reset(); }
  // Stepped: all slices are restored together, and training continues from an earlier step.
  void Restart();
  Time next_timer() const;

 private:
  // Backup workers: the lanes that count in the newest decided step.
  struct LaneDecision {
    StepLane step_lane;
    std::vector<uint64_t> counted;
    bool Has(uint32_t lane) const { return (counted[lane / 64] >> (lane % 64) & 1) != 0; }
  };

  bool AdvanceRuns(Time now);
  bool AdvanceSteps(Time now);
  void StartRun(HeldSplit& split);
  void Push(Time now, const HeldSplit& split);
  void AddWaiting(const HeldSplit& split);
  bool StepIsOver(const Lease& lease, uint64_t step);
  void SkipCompletedRuns(HeldSplit* split);
  void SettleLeases();
  bool PullForStep(Time now, uint64_t step);
  bool QueryCountedLanes(Time now, const HeldSplit& next);
  bool QueryVersions(Time now);
  bool HasEarlierStep();
  std::optional<NodeId> Decider() const;
  void AttachCountedLanes(Exchange* exchange) const;

  const StrategyConfig& strategy_;
  const Duration retry_interval_;
  const bool always_pull_;
  HeldSplits& splits_;
  SliceVersions& versions_;
  Exchanges& exchanges_;
  CurrentRun& run_;
  WorkerOutbox& outbox_;
  // The awaited versions allow steps from here on; a lower available step goes first.
  uint64_t goal_ = 0;
  std::optional<Time> interrupt_at_;
  std::optional<LaneDecision> decided_;
  std::optional<Time> ask_at_;  // query the versions of slices not before this
  // The step and time of the last pull that returned no newer values.
  std::optional<std::pair<uint64_t, Time>> last_pull_;
};

}  // namespace leat::protocol
