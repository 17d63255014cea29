// Commands of a person, who repeats them until they are answered.
#include <algorithm>
#include <string>
#include <utility>

#include "lab/sim/cluster/cluster_state.h"

namespace leat::sim {

namespace {

// A request that was given up may still arrive.
constexpr Duration kLateRequest = std::chrono::seconds(5);

}  // namespace

void Cluster::State::Command(AdminRequest::Kind kind, std::function<void()> then) {
  Call(Admin(), AdminRequest{.kind = kind},
       [this, kind, then = std::move(then)](const std::optional<ControlReply>& reply) {
         if (reply) return then();  // also if the job is ending
         queue.After(std::chrono::milliseconds(100), [this, kind, then] { Command(kind, then); });
       });
}

void Cluster::State::PauseJob(Duration lasts) {
  ++result.job_pauses;
  Command(AdminRequest::Kind::kPause, [this, lasts] {
    for (const Duration after : {lasts, lasts + kLateRequest})
      queue.After(after, [this] { Command(AdminRequest::Kind::kContinue, [] {}); });
  });
}

void Cluster::State::NotePause(const ScaleSet& set) {
  if (!set.paused) {
    paused_from.reset();
  } else if (!paused_from) {
    paused_from = leased_until;
  }
}

// Only the former coordinator knew which rounds it had leased. Before a pause, any of them may be leased
// again.
void Cluster::State::NoteTakenOver(const RecoveredState& restored) {
  if (paused_from) return;
  for (const JournalRecord& record : restored.journal) {
    if (const auto* round = std::get_if<RoundMade>(&record); round != nullptr && !round->lanes.empty())
      leased_until = std::max(leased_until, round->first_step + round->lanes.front().assigned.count());
  }
}

// A round that another coordinator has journaled counts as begun, but perhaps nobody was told of it.
void Cluster::State::NoteAgreedPause(const ScaleSet& set) {
  NotePause(set);
  if (paused_from) paused_from = std::max(*paused_from, set.begun);
}

void Cluster::State::CheckPause(const CoordinatorProcess& c, const WorkerHeartbeatReply& reply) {
  const bool stepped = options.strategy.stepped();
  // Leases of one that was replaced are as good as any. It has not heard of the pause.
  const bool newest = c.term >= acted_term;
  const auto check = [&](uint64_t begin, uint64_t end) {
    leased_until = std::max(leased_until, end);
    if (newest && paused_from && (!stepped || begin >= *paused_from))
      Violate(Invariant::kPause, "step " + std::to_string(begin) + " is begun, paused from step " +
                                     std::to_string(*paused_from) + "; " + Standing());
  };
  for (const Lease& lease : reply.leases) check(lease.first_step, lease.first_step + lease.assigned.count());
  for (const protocol::Round& round : reply.rounds) check(round.first_step, round.end());
}

}  // namespace leat::sim
