#include "protocol/heartbeats/departures.h"

#include <vector>

namespace leat::protocol {

void Departures::Remove(Time now, NodeId node, Gone how) {
  const Role role = to_.roster.At(node).member.role;
  to_.roster.Remove(node, how);
  succession_.StopAwaiting(now, node, role);
  if (role != Role::kWorker && role != Role::kServer) return;
  if (role == Role::kWorker) to_.predictions.Reclaim(node);
  if (job_.all_reduce()) return to_.groups.Remove(now, node, how == Gone::kLeft);
  to_.leases.Remove(now, node);
  if (role == Role::kWorker) return;
  to_.transfers.Forget(node);
  to_.checkpoints.OnServerLost(now, node);
  if (!to_.placement.LoseServer(now, node) || !job_.stepped()) return;
  to_.placement.map().RestoreAll();
  to_.leases.RollBack();
}

void Departures::OnLost(Time now, NodeId node) {
  if (to_.roster.Has(node)) Remove(now, node, Gone::kLost);
}

void Departures::Evict(Time now, NodeId node) {
  to_.roster.MarkEvicted(node);
  Remove(now, node, Gone::kEvicted);
}

void Departures::PlaceSlices(Time now) {
  if (!to_.leases.cursors().started()) return;
  if (job_.all_reduce()) return AdvanceGroups(now);
  if (const Status good = to_.transfers.PlaceSlices(now); !good.ok()) end_.StopMembers(now, good);
}

void Departures::AdvanceGroups(Time now) {
  std::vector<NodeId> excluded;
  while (!(excluded = to_.groups.Advance(now)).empty()) {
    for (const NodeId node : excluded) Evict(now, node);
  }
  const Status& failure = to_.groups.groups().failure();
  if (failure.ok() || end_.stopping() || to_.checkpoints.suspects()) return;
  end_.StopMembers(now, job_.strategy.mpi ? to_.checkpoints.WithResumption(failure) : failure);
}

void Departures::Sweep(Time now) {
  if (now < next_sweep_) return;
  // While this process did not run, others could not be heard, so that time does not count as their silence.
  const Duration away = now - next_sweep_;
  if (away > job_.heartbeat_timeout / 4) {
    to_.roster.ExcuseSilence(now, away);
    to_.placement.ExcuseSilence(now, away);
  }
  next_sweep_ = now + BusyInterval(job_.heartbeat_interval);
  for (const NodeId node : to_.roster.Silent(now)) Evict(now, node);
  to_.roster.ForgetSilentEvicted(now);
  if (!job_.all_reduce()) to_.leases.queue().FreeOverdue(now);
  // The other members wait for one that is overdue, and its part of a step cannot be given to them.
  for (const NodeId node : to_.groups.Overdue(now)) Evict(now, node);
  // A coordinator without anything to journal also finds out that it was replaced.
  if (job_.term != 0) to_.outbox.Request(ConfirmTerm{});
}

}  // namespace leat::protocol
