// Which run of its leases a worker computes next, what the run needs before, and when its split is over.
//
// Without steps: the runs of the oldest split that is ready. Stepped: a run of the lowest step. It needs all
// slices at the step's version (ssp: up to `ahead` less), and is skipped once its step is complete; its lease
// is released once every slice has completed the lease's last step. With backup workers, slice 0's server
// decides which lanes count in a step, and the workers tell the other servers. Invariant: a run is begun only
// while no other one is active. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/actions.h"
#include "protocol/push/current_run.h"

namespace leat::protocol {

// The worker's half of leasing: the splits that it holds, and what it has to tell the coordinator about them.
//
// Invariants: a split is held from its lease until it is dropped or released; a released lease is reported
// until the coordinator has answered a heartbeat with it; a lease that does not fit the job is released at
// once. Not thread-safe.
struct HeldSplit {
  Lease lease;
  bool ready = false;  // its batches can be computed
  // Stepped: `assigned` up to the last missing run; run k belongs to step first_step + k. Otherwise
  // `missing`.
  std::vector<uint32_t> runs;
  uint32_t next = 0;  // index in `runs`; those before it are pushed or not needed

  bool done() const { return next >= runs.size(); }
  uint64_t step() const { return lease.first_step + next; }
  // Stepped: slices at this version have completed all its steps.
  uint64_t end() const { return lease.first_step + runs.size(); }
  StepLane step_lane() const { return {step(), lease.lane, lease.width, lease.needed}; }
};

class HeldSplits {
 public:
  struct Options {
    bool stepped = false;
    uint32_t leases_ahead = 2;  // as in WorkerConfig
    bool late_labels = false;   // as in WorkerConfig
  };
  // `outbox` outlives it.
  HeldSplits(const Options& options, WorkerOutbox& outbox) : options_(options), outbox_(outbox) {}

  // ---- the coordinator's word
  void Take(const Lease& granted);
  // The last report has been answered.
  void OnAnswered();
  void Drop(uint64_t id);
  // Fills in what is held, what is released, and how many more are wanted if `more`. `claims`: a new
  // coordinator is told in full.
  void Report(bool claims, bool more, WorkerHeartbeat* heartbeat);
  // There is more to report than the last heartbeat had.
  bool has_news() const { return released_.size() > reported_; }

  // ---- the splits
  bool empty() const { return held_.empty(); }
  bool Holds(uint64_t id) const { return held_.contains(id); }
  // Null: it is not held.
  HeldSplit* Find(uint64_t id);
  std::map<uint64_t, HeldSplit>& all() { return held_; }
  const std::deque<uint64_t>& order() const { return order_; }  // ids, oldest lease first
  HeldSplit* FirstReady();
  // Nothing is held, or the oldest split is ready.
  bool FirstIsReady() const { return held_.empty() || held_.at(order_.front()).ready; }
  // Stepped: a split of the lowest step, preferably one that is ready. Null: all are done.
  HeldSplit* LowestStep();
  // Stepped: no other split has a run of its step, or an earlier one.
  bool LastOfStep(const HeldSplit& split) const;

  // ---- the end
  void Release(uint64_t id);
  // All runs of the split are pushed.
  void Complete(uint64_t id);
  void ReleaseAll();
  void DropAll();
  // All leases belong to others once the worker has left. Splits that it has begun are released, so that
  // servers are asked first about the runs that they may have. Other splits are dropped, and so are lanes,
  // because the other workers wait for them.
  void GiveUp();

 private:
  bool Fits(const Lease& granted) const;
  uint32_t RoundsHeld() const;
  uint32_t Wanted() const;

  const Options options_;
  WorkerOutbox& outbox_;
  std::map<uint64_t, HeldSplit> held_;
  std::deque<uint64_t> order_;
  std::vector<uint64_t> released_;  // not acknowledged by the coordinator yet
  size_t reported_ = 0;             // entries of `released_` in the pending heartbeat
  uint32_t completed_ = 0;          // splits since the last answered heartbeat; not stepped
};

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
