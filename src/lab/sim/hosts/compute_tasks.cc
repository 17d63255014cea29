#include "lab/sim/hosts/compute_tasks.h"

#include <algorithm>
#include <utility>

#include "base/prefetch.h"
#include "lab/sim/cluster/concerns.h"
#include "protocol/prefetch.h"

namespace leat::sim {

using namespace protocol;

void ComputeTasks::Execute(const ProcessPtr& p, const Compute& a) {
  const BatchOutcome outcome = Train(p, *p->worker->FindLease(a.lease), a.batch, a.first);
  EndAfter(p, DrawTime(p.get()), a.token, outcome);
}

BatchOutcome ComputeTasks::Train(const ProcessPtr& p, const Lease& lease, uint32_t batch, bool first) {
  Trained trained;
  if (p->memory) {
    trained = p->memory->Compute(lease, batch, first);
  } else {
    const uint64_t before = uint64_t{batch} * lease.cut.batch_size;
    trained.outcome.events =
        static_cast<uint32_t>(std::min<uint64_t>(lease.cut.batch_size, lease.cut.events() - before));
  }
  ++p->progress.steps;
  if (trained.outcome.disposition == Disposition::kRejected) {
    ++p->progress.rejected_batches;
  } else {
    p->progress.events += trained.outcome.events;
    p->progress.loss_sum += trained.loss_sum;
    p->progress.correct += trained.correct;
  }
  return trained.outcome;
}

Duration ComputeTasks::DrawTime(RoleProcess* p) {
  double seconds = Seconds(options_.compute.Draw(rng_));
  if (p->started < options_.slowness.size()) seconds *= options_.slowness[p->started];
  seconds = seconds / p->speed + Seconds(std::exchange(p->owed, Duration(0)));
  p->progress.cpu_seconds += seconds;
  return FromSeconds(seconds);
}

void ComputeTasks::EndAfter(const ProcessPtr& p, Duration takes, uint64_t token,
                            const BatchOutcome& outcome) {
  const uint32_t index = computations_.Allocate();
  computations_[index] = {p->slot, p->incarnation, token, outcome};
  if (all_.cores.Of(*p) != nullptr) return all_.cores.Begin(*p, index, takes, options_.compute_threads);
  queue_.At(now() + takes, kComputed, index);
}

void ComputeTasks::OnComputed(uint32_t index) {
  const Computation computation = computations_[index];
  const ProcessPtr p = processes_[computation.slot];
  if (p && now() < p->paused_until) return queue_.At(p->paused_until, kComputed, index);
  computations_.Free(index);
  if (!p || p->incarnation != computation.incarnation) return;
  if (p->group_member) {
    p->group_member->computing = 0;
    return all_.executor.Execute(
        p, p->group_member->machine->OnComputed(computation.token, computation.outcome));
  }
  all_.executor.Execute(p, p->worker->OnComputed(now(), computation.token, computation.outcome));
}

void ComputeTasks::PrefetchEvent(uint32_t index, int hop) {
  const Computation& computation = computations_[index];
  if (hop == 0) return Prefetch(&computation, sizeof(computation));
  const RoleProcess* const p = processes_[computation.slot].get();
  if (hop == 1) return Prefetch(p, kHotProcessBytes);
  if (p && p->worker) PrefetchHints::Pushes(*p->worker, hop - 2);
}

}  // namespace leat::sim
