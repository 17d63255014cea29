#include "protocol/heartbeats/heartbeats.h"

#include <algorithm>
#include <string>
#include <utility>

namespace leat::protocol {

template <class Reply>
bool Heartbeats::TellToStop(MemberState* member, Reply* reply) const {
  reply->stop = end_.stopping();
  reply->evicted = !member && !reply->stop;
  if (member && reply->stop) member->told_to_stop = true;
  return reply->stop || reply->evicted;
}

// ---- workers

WorkerHeartbeatReply Heartbeats::Hear(Time now, const WorkerHeartbeat& heartbeat) {
  const NodeId node = heartbeat.node;
  WorkerHeartbeatReply reply;
  reply.term = job_.term;
  MemberState* const member = to_.roster.Heard(now, node, Role::kWorker);
  if (TellToStop(member, &reply) || heartbeat.term != job_.term) return reply;
  succession_.OnReturned(now, node, heartbeat.claims);
  if (!std::exchange(member->ready, true)) OnReady(now, *member);
  to_.predictions.OnHeartbeat(now, heartbeat);
  to_.leases.OnHeartbeat(now, heartbeat);
  if (heartbeat.leaving) {
    Remove(now, node, Gone::kLeft);
    reply.stop = true;
    return reply;
  }
  reply.drain = member->draining();
  if (!job_.all_reduce()) {
    Lease(now, member, heartbeat, &reply);
  } else {
    member->generation = std::max(member->generation, heartbeat.generation);
    if (heartbeat.member_report) Reduce(now, heartbeat, &reply);
  }
  if (!end_.begun()) to_.predictions.GrantRescores(now, heartbeat, slices_.Watermarks(), &reply);
  const Shared<View>& view = to_.outbox.RefreshView();
  // Before the slices are back, it would stop training.
  const bool wait = !job_.all_reduce() && slices_.returning();
  if (heartbeat.generation != view->generation && !wait) reply.view = view;
  return reply;
}

// Before a worker is ready, nobody waits for it.
void Heartbeats::OnReady(Time now, const MemberState& worker) {
  to_.slots.OnReady(now, to_.scale.WantedWorkers());
  if (worker.stands_by()) return;
  job_.all_reduce() ? to_.groups.Join(now, worker) : to_.leases.ShareLanes();
}

void Heartbeats::Lease(Time now, MemberState* worker, const WorkerHeartbeat& heartbeat,
                       WorkerHeartbeatReply* reply) {
  const WorkerProgress& progress = heartbeat.progress;
  if (job_.stepped())
    to_.leases.rounds().shares().OnProgress(now, heartbeat.node, progress.steps,
                                            progress.wait_seconds + progress.input_wait_seconds);
  if (to_.roster.SetUnreachable(now, heartbeat.node, heartbeat.unreachable, to_.returning.awaited())) {
    // Nobody waits for a worker that is isolated.
    if (worker->isolated) to_.leases.queue().Reclaim(now, heartbeat.node);
    to_.outbox.ChangeView();
  }
  reply->revoked = to_.leases.queue().Reconcile(now, heartbeat.node, heartbeat.held);
  if (reply->revoked.empty()) worker->generation = std::max(worker->generation, heartbeat.generation);
  to_.predictions.OnCuts(to_.leases.Grant(now, heartbeat, end_.Allowed(), reply));
}

void Heartbeats::Reduce(Time now, const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply) {
  const MemberReport& report = *heartbeat.member_report;
  if (to_.groups.OnReport(now, heartbeat)) to_.checkpoints.Suspect(Status());
  PlaceSlices(now);
  to_.groups.ReportProgress(now);
  if (to_.leases.cursors().started()) reply->start = to_.leases.cursors().start();
  if (!to_.groups.FillIn(heartbeat, reply)) return;
  if (report.shard) to_.checkpoints.OnShard(now, heartbeat.node, *report.shard);
  if (const MemberReport* most = to_.groups.groups().Rejected()) {
    const Status good = CheckRejected(most->consecutive_rejected, most->rejected);
    if (!good.ok()) return end_.StopMembers(now, good);
  }
  if (!to_.groups.running()) return;
  // Rounds known to a member are trained to their end, so that all members do the same steps.
  if (!end_.begun()) to_.predictions.OnCuts(to_.leases.MakeRounds(now, false));
  reply->rounds = to_.leases.rounds().RoundsFrom(report.rounds_until, !end_.begun());
  reply->checkpoint = to_.checkpoints.OrderFor(heartbeat.node);
}

// ---- servers

ControlReply Heartbeats::Hear(Time now, const ServerHeartbeat& heartbeat) {
  const NodeId node = heartbeat.node;
  const bool knows_term = heartbeat.term == job_.term;
  // A step that no slice can have is rejected, together with the whole report.
  const Status steps = job_.stepped() && knows_term ? slices_.CheckFirstSteps(heartbeat) : Status();
  if (!steps.ok()) return Refusal{steps};
  ServerHeartbeatReply reply;
  reply.term = job_.term;
  MemberState* const member = to_.roster.Heard(now, node, Role::kServer);
  // A server that does not know the term reports what the former coordinator does not know yet.
  if (TellToStop(member, &reply) || !knows_term) return reply;
  succession_.OnReturned(now, node, {});
  if (heartbeat.leaving) to_.transfers.BeginDraining(node);
  if (heartbeat.leaving && to_.transfers.MayLeave(node, end_.begun())) {
    Remove(now, node, Gone::kLeft);
    reply.stop = true;
    return reply;
  }
  if (to_.transfers.LacksMoved(heartbeat)) {
    Evict(now, node);
    reply.evicted = true;
    return reply;
  }
  if (const Status good = OnReport(now, heartbeat); !good.ok()) {
    end_.StopMembers(now, good);
    reply.stop = member->told_to_stop = true;
    return reply;
  }
  PlaceSlices(now);
  const Shared<View>& view = to_.outbox.RefreshView();
  if (heartbeat.generation != view->generation) reply.view = view;
  if (to_.leases.cursors().started()) reply.start = to_.leases.cursors().start();
  reply.orders = slices_.OrdersFor(node);
  to_.transfers.AddOrders(now, node, &reply);
  reply.report = heartbeat.report;
  reply.part = heartbeat.part;
  reply.checkpoint = to_.checkpoints.OrderFor(node);
  return reply;
}

Status Heartbeats::OnReport(Time now, const ServerHeartbeat& heartbeat) {
  to_.roster.OnServerHeartbeat(heartbeat);
  to_.leases.OnServerHeartbeat(heartbeat);
  const Status restored = to_.placement.OnReport(heartbeat);
  if (!restored.ok() && !to_.checkpoints.Suspect(restored)) return restored;
  if (slices_.TakeOutdated() && job_.stepped()) {
    slices_.RestoreAll();
    to_.leases.RollBack();
  }
  to_.transfers.OnReports(now, heartbeat);
  if (to_.placement.BecameReady()) to_.leases.queue().Reconsider(now, slices_);
  to_.leases.OnServerReport(now);
  if (heartbeat.shard) to_.checkpoints.OnShard(now, heartbeat.node, *heartbeat.shard);
  return CheckRejected(heartbeat.consecutive_rejected, heartbeat.rejected);
}

Status Heartbeats::CheckRejected(uint32_t consecutive, const std::optional<RejectedRun>& last) const {
  if (consecutive < std::max(max_rejected_, 1u)) return {};
  std::string why = std::to_string(consecutive) + " gradients in a row were not finite";
  const std::string advice = "; lower the learning rate, or set clip_norm in the optimizer";
  if (!last) return {Code::kFailedPrecondition, why + advice};
  const auto& [node, cut, run] = *last;
  why += ": the last by worker ";
  if (const MemberState* const worker = to_.roster.Find(node))
    why += std::to_string(worker->member.index) + " ";
  why += "(node " + ToString(node) + ")";
  if (cut.valid() && run < cut.runs()) {
    std::vector<uint32_t> order;
    TrainingOrder(cut, &order);
    const auto first = order.begin() + static_cast<std::ptrdiff_t>(uint64_t{run} * cut.run * cut.batch_size);
    const auto [least, most] =
        std::minmax_element(first, first + static_cast<std::ptrdiff_t>(cut.EventsOf(run)));
    why += ", partition " + std::to_string(cut.partition) + " offsets " +
           std::to_string(cut.begin.offset + *least) + " to " + std::to_string(cut.begin.offset + *most + 1);
  }
  return {Code::kFailedPrecondition, why + advice};
}

// ---- other roles, for which nobody waits: they may leave at any time

BotsHeartbeatReply Heartbeats::Hear(Time now, const BotsHeartbeat& heartbeat) {
  BotsHeartbeatReply reply;
  reply.term = job_.term;
  reply.standbys = to_.outbox.view()->standbys();
  MemberState* const member = to_.roster.Heard(now, heartbeat.node, Role::kBots);
  (void)TellToStop(member, &reply);
  if (member && heartbeat.term == job_.term) succession_.OnReturned(now, heartbeat.node, {});
  if (member && heartbeat.done) Remove(now, heartbeat.node, Gone::kLeft);
  return reply;
}

// False: the heartbeat is of another term, and the role does not end.
template <class Heartbeat, class Reply>
bool Heartbeats::HearServing(Time now, const Heartbeat& heartbeat, Role role, Reply* reply) {
  const NodeId node = heartbeat.node;
  reply->term = job_.term;
  MemberState* const member = to_.roster.Heard(now, node, role);
  reply->stop = end_.stopping() || (member && heartbeat.leaving);
  reply->evicted = !member && !reply->stop;
  if (member) member->told_to_stop = reply->stop;
  if (heartbeat.term != job_.term && !reply->stop) return false;
  if (!member) return true;
  succession_.OnReturned(now, node, {});
  reply->drain = member->draining();
  if (heartbeat.leaving) Remove(now, node, Gone::kLeft);
  return true;
}

FeedHeartbeatReply Heartbeats::Hear(Time now, const FeedHeartbeat& heartbeat) {
  FeedHeartbeatReply reply;
  reply.standbys = to_.outbox.view()->standbys();
  const bool awaited = to_.returning.Awaits(heartbeat.node);
  if (!HearServing(now, heartbeat, Role::kFeed, &reply)) return reply;
  if (awaited) to_.predictions.Adopt(heartbeat.node, heartbeat.publishers);
  if (!to_.predictions.enabled() || reply.stop || reply.evicted) return reply;
  OnPublishers(now, heartbeat.node, heartbeat.publishers);
  reply.publish = to_.predictions.OrdersFor(heartbeat.node);
  return reply;
}

ServeHeartbeatReply Heartbeats::Hear(Time now, const ServeHeartbeat& heartbeat) {
  ServeHeartbeatReply reply;
  if (!HearServing(now, heartbeat, Role::kServe, &reply) || reply.stop || reply.evicted) return reply;
  const Shared<View>& view = to_.outbox.RefreshView();
  if (heartbeat.generation != view->generation) reply.view = view;
  return reply;
}

void Heartbeats::OnPublishers(Time now, NodeId feed, const std::vector<PublisherReport>& reports) {
  const Status good = to_.predictions.OnReports(feed, reports);
  if (!good.ok() && !end_.stopping()) end_.StopMembers(now, good);
}

// ---- members that are gone

void Heartbeats::Remove(Time now, NodeId node, Gone how) {
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

void Heartbeats::PlaceSlices(Time now) {
  if (!to_.leases.cursors().started()) return;
  if (!job_.all_reduce()) {
    if (const Status good = to_.transfers.PlaceSlices(now); !good.ok()) end_.StopMembers(now, good);
    return;
  }
  for (std::vector<NodeId> excluded; !(excluded = to_.groups.Advance(now)).empty();) {
    for (const NodeId node : excluded) Evict(now, node);
  }
  const Status& failure = to_.groups.groups().failure();
  if (failure.ok() || end_.stopping() || to_.checkpoints.suspects()) return;
  end_.StopMembers(now, job_.strategy.mpi ? to_.checkpoints.WithResumption(failure) : failure);
}

void Heartbeats::Sweep(Time now) {
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
