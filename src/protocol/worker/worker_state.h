// The worker's parts, for worker.cc and PrefetchHints.
#pragma once

#include <utility>

#include "protocol/leases/held/run_order.h"
#include "protocol/push/current_run.h"
#include "protocol/push/exchanges.h"
#include "protocol/push/slice_versions.h"
#include "protocol/worker/worker.h"

namespace leat::protocol {

struct Worker::State {
  using Phase = CurrentRun::Phase;

  explicit State(WorkerConfig c);

  // Starts what is due, until there is nothing to do but wait.
  void Advance(Time now);
  void TakeView(const Shared<View>& newer);
  void Stop(bool evicted);
  // A worker that leaves, and has nothing more to do.
  bool gone() const { return leaving && run.phase() == Phase::kIdle && splits.empty(); }
  // Waits for others, not for its own input or computation.
  bool Waiting() const;
  WorkerActions Take() { return std::exchange(outbox.actions, {}); }
  WorkerActions Advanced(Time now) {
    Advance(now);
    return Take();
  }

  const WorkerConfig config;
  Retries retries;

  // The fields that every reply needs: kNearBytes from here.
  static constexpr size_t kNearBytes = 384;
  bool leaving = false;
  bool stopped = false;
  bool introduces = false;  // a new coordinator has not answered with its term yet: all leases are reported
  WorkerOutbox outbox;
  SliceVersions versions;
  Exchanges exchanges;
  CurrentRun run;

  HeldSplits splits;
  RunOrder order;
  NodeId node;
  uint64_t term = 0;  // term of the coordinator that it follows
};

}  // namespace leat::protocol
