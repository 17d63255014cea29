#include "protocol/allreduce/member_groups.h"

#include <algorithm>

#include "protocol/guards.h"

namespace leat::protocol {

namespace {

GroupCoordinatorConfig GroupConfig(const MemberSettings& job) {
  return {.workers = job.workers,
          .mpi = job.strategy.mpi,
          .mpi_silence = job.heartbeat_timeout + 4 * BusyInterval(job.heartbeat_interval)};
}

}  // namespace

MemberGroups::MemberGroups(Roster* roster, SliceMap* slices, Leases* leases, Outbox* outbox)
    : roster_(*roster),
      slices_(*slices),
      leases_(*leases),
      outbox_(*outbox),
      groups_(GroupConfig(roster->settings())),
      pace_(leases->limits()) {}

void MemberGroups::Remove(Time now, NodeId node, bool left) {
  pace_.Forget(node);
  paced_steps_.erase(node);
  groups_.Remove(now, node, left);
}

void MemberGroups::Restore(const GroupNamed& former) {
  std::vector<Member> members;
  for (const NodeId node : former.members) {
    if (const MemberState* member = roster_.Find(node)) members.push_back(member->member);
  }
  if (members.size() != former.members.size()) return;
  groups_.Restore(former.id, std::move(members));
  slices_.Regroup(former.members, Incarnation(former.id), false);
}

void MemberGroups::Pace(Time now, NodeId node, const MemberReport& report) {
  pace_.OnHeartbeat(now, node, report.waiting);
  const auto [paced, first] = paced_steps_.try_emplace(node, report.step);
  if (!first && paced->second == report.step) return;
  pace_.OnEnded(now, node, node.value);
  pace_.OnGranted(now, node, node.value);
  paced->second = report.step;
}

std::vector<NodeId> MemberGroups::Overdue(Time now) {
  std::vector<NodeId> overdue;
  for (const uint64_t node : pace_.Overdue(now)) {
    if (roster_.Has(NodeId(node))) overdue.emplace_back(node);
  }
  overdue_ += overdue.size();
  return overdue;
}

bool MemberGroups::OnReport(Time now, const WorkerHeartbeat& heartbeat) {
  groups_.Report(now, heartbeat.node, *heartbeat.member_report, heartbeat.unreachable);
  Pace(now, heartbeat.node, *heartbeat.member_report);
  const auto group = groups_.RestoreFailed();
  if (!group || *group == suspected_ || roster_.settings().strategy.mpi) return false;
  suspected_ = *group;
  return true;
}

std::vector<NodeId> MemberGroups::Advance(Time now) {
  while (groups_.Advance(now, [this] { return outbox_.NextId(); })) {
    const auto& group = groups_.current();
    std::vector<NodeId> members;
    if (group) {
      for (const Member& member : group->members) members.push_back(member.node);
    }
    if (group && !group->decided) {
      outbox_.Journal(GroupNamed{group->id, std::move(members)});
      continue;
    }
    const bool survived = group && !groups_.from_source();
    slices_.Regroup(members, Incarnation(group ? group->id : outbox_.NextId()), survived);
    if (!survived) leases_.RollBack();
    outbox_.ChangeView();
  }
  return groups_.TakeExcluded();
}

void MemberGroups::ReportProgress(Time now) {
  const MemberReport* const least = groups_.Least();
  if (least == nullptr) return;
  const bool was_ready = slices_.ready();
  if (!was_ready || slices_.Version() < least->step)
    slices_.ReportAll({{}, least->events, least->partitions, least->step});
  if (!was_ready) leases_.rounds().Reconsider(now, slices_);
  leases_.rounds().OnServerReport(now, slices_, roster_.heartbeats());
  if (!was_ready) outbox_.ChangeView();
}

bool MemberGroups::FillIn(const WorkerHeartbeat& heartbeat, WorkerHeartbeatReply* reply) const {
  const auto& group = groups_.current();
  if (!group || !groups_.Has(heartbeat.node)) return false;
  reply->group = group;
  for (uint32_t i = 0; i < slices_.size() && group->decided && groups_.from_source(); ++i)
    reply->group->orders.push_back(slices_.At(SliceId(i)).order);
  return guards::SameGroup(heartbeat.member_report->group, group->id);
}

}  // namespace leat::protocol
