// The worker's half of leasing: the splits that it holds, and what it has to tell the coordinator about them.
//
// Invariants: a split is held from its lease until it is dropped or released; a released lease is reported
// until the coordinator has answered a heartbeat with it; a lease that does not fit the job is released at
// once. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "protocol/actions.h"

namespace leat::protocol {

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

}  // namespace leat::protocol
