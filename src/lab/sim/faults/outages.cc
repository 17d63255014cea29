#include "lab/sim/faults/outages.h"

#include "lab/sim/cluster/concerns.h"

#include <algorithm>
#include <string>

namespace leat::sim {

using namespace protocol;

namespace {

std::string For(Duration lasts) {
  return "for " + std::to_string(Seconds(lasts)) + " s";
}

}  // namespace

Duration Outages::DrawPause() {
  const Duration longest = options_.faults.longest_pause;
  if (longest > Duration(0) && rng_.Chance(0.25)) return Between(1000, 1e3 * Seconds(longest));
  return Between(10, 2500);
}

void Outages::Pause(Process* process, Duration lasts) {
  ++counts_.pauses;
  process->paused_until = std::max(process->paused_until, now() + lasts);
}

void Outages::PauseRole(RoleProcess* p, Duration lasts) {
  world_.TellFault("stops " + For(lasts), p);
  Pause(p, lasts);
}

void Outages::PauseCoordinator(Process* process, Duration lasts) {
  world_.TellFault("stops " + For(lasts));
  Pause(process, lasts);
}

void Outages::CutOff(RoleProcess* p, Duration lasts) {
  world_.TellFault("does not reach the coordinator " + For(lasts), p);
  p->cut_off_until = now() + lasts;
}

void Outages::CutPair(const RoleProcess& worker, const RoleProcess& server, Duration lasts) {
  ++counts_.cuts;
  world_.TellFault("does not reach server " + std::to_string(server.started) + " " + For(lasts), &worker);
  Time& until = cut_until_[{worker.node, server.node}];
  until = std::max(until, now() + lasts);
}

bool Outages::IsCut(NodeId worker, NodeId server) const {
  const auto at = cut_until_.find({worker, server});
  return at != cut_until_.end() && now() < at->second;
}

void Outages::Isolate(RoleProcess* p, Duration lasts) {
  world_.TellFault("reaches nobody " + For(lasts), p);
  ++counts_.isolations;
  p->isolated_until = std::max(p->isolated_until, now() + lasts);
  p->cut_off_until = std::max(p->cut_off_until, now() + lasts);
}

}  // namespace leat::sim
