// Batches that workers compute, on the cores of their hosts.
//
// A batch is trained when its task begins, and its outcome is known when the task ends; a worker that has
// joined again meanwhile drops it.
#pragma once

#include "lab/sim/events/memory.h"
#include "lab/sim/members/role_process.h"
#include "protocol/worker/worker.h"

namespace leat::sim {

class ComputeTasks : Concern {
 public:
  using Concern::Concern;

  void Execute(const ProcessPtr& p, const protocol::Compute& a);
  // Trains a batch at once, and counts it in the worker's progress.
  protocol::BatchOutcome Train(const ProcessPtr& p, const protocol::Lease& lease, uint32_t batch, bool first);
  // Random time of a batch, with what the worker owes for messages.
  Duration DrawTime(RoleProcess* p);
  // Gives the machine the outcome when the task has ended.
  void EndAfter(const ProcessPtr& p, Duration takes, uint64_t token, const protocol::BatchOutcome& outcome);
  void OnComputed(uint32_t index);
  // As PushMessages::PrefetchEvent.
  void PrefetchEvent(uint32_t index, int hop);

 private:
  struct Computation {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t token = 0;
    protocol::BatchOutcome outcome;
  };

  Slab<Computation> computations_;
};

}  // namespace leat::sim
