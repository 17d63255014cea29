#include "lab/sim/cluster/world.h"

#include <utility>

#include "lab/sim/cluster/concerns.h"

namespace leat::sim {

using namespace protocol;

Concern::Concern(ClusterConcerns& all)
    : all_(all),
      world_(all.world),
      options_(all.world.options),
      queue_(all.world.queue),
      rng_(all.world.rng),
      processes_(all.processes) {}

World::World(ClusterOptions o, Workload& w, Hooks h)
    : options(std::move(o)), workload(w), hooks(std::move(h)), rng(options.seed) {
  for (const SliceSpec& slice : options.table.slices) {
    slice_ranges.push_back({elements, elements + slice.elements()});
    elements = slice_ranges.back().end;
  }
  modelled = workload.Join() == nullptr;
}

Duration World::Latency(Duration least, double share) {
  if (Chance(share * options.faults.slow)) return Between(1, 3000);
  if (options.jitter > 0) return least + FromSeconds(Seconds(least) * options.jitter * rng.Uniform());
  return least;
}

void World::ScheduleIn(const std::shared_ptr<Process>& process, Duration delay, std::function<void()> what) {
  queue.After(delay, [this, process, what = std::move(what)]() mutable {
    if (!process->alive) return;
    if (now() < process->paused_until)
      return ScheduleIn(process, process->paused_until - now(), std::move(what));
    what();
  });
}

void World::Violate(Invariant invariant, std::string what) {
  done = true;
  if (!violation) violation = Violation{invariant, std::move(what), now()};
}

void World::TellFault(const std::string& what, const RoleProcess* p) const {
  if (!hooks.on_fault) return;
  if (p == nullptr) return hooks.on_fault(now(), "coordinator: " + what);
  const std::string name = (p->role == Role::kServer ? "server " : "worker ") + std::to_string(p->started);
  hooks.on_fault(now(), name + ": " + what);
}

}  // namespace leat::sim
