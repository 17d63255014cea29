#include "protocol/allreduce/member_groups.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "protocol/guards.h"

namespace leat::protocol {

namespace {

// A single failure may be a connection that broke for a moment.
constexpr uint32_t kFailuresOfPair = 2;

GroupCoordinatorConfig GroupConfig(const MemberSettings& job) {
  return {.workers = job.workers,
          .mpi = job.strategy.mpi,
          .mpi_silence = job.heartbeat_timeout + 4 * BusyInterval(job.heartbeat_interval)};
}

}  // namespace

void GroupCoordinator::Join(Time now, const Member& member, uint64_t process) {
  Waiting& waiting = members_[member.node];
  waiting = {.member = member, .process = process, .since = now};
  if (const auto at = exclusions_.find(process); at != exclusions_.end() && now < at->second.until) {
    waiting.since = at->second.until;
    waiting.unreachable = at->second.unreachable;
  }
  if (!first_since_) first_since_ = now;
}

void GroupCoordinator::Remove(Time now, NodeId node, bool left) {
  const auto gone = members_.extract(node);
  if (members_.empty()) first_since_.reset();
  if (!in_group_.contains(node)) return;
  anew_ = true;
  if (config_.mpi && gone)
    EndMpi(left ? now + config_.mpi_silence : now, gone.mapped().member, left ? " has left" : " was lost");
}

// The earliest due time wins.
void GroupCoordinator::EndMpi(Time due, const Member& member, const std::string& what) {
  if (ending_ && ending_->due <= due) return;
  ending_ = {due, "worker " + std::to_string(member.index) + " (rank " + std::to_string(member.index) +
                      " of " + std::to_string(config_.workers) + ", " + member.address + ")" + what +
                      ", and MPI cannot continue without one of its processes"};
}

void GroupCoordinator::Report(Time now, NodeId node, const MemberReport& report,
                              const std::vector<NodeId>& unreachable) {
  const auto at = in_group_.find(node);
  // A report for an earlier group: the member does not know this one yet.
  if (at == in_group_.end() || !group_ || !guards::SameGroup(report.group, group_->id)) return;
  at->second.report = report;
  at->second.unreachable = unreachable;
  if (config_.mpi) {
    if (!report.failure.empty())
      EndMpi(now + config_.mpi_silence, members_.at(node).member, " has failed (" + report.failure + ")");
    return;
  }
  if (!report.failure.empty() && !again_) {
    ++failures_;
    why_ = "worker " + std::to_string(members_.at(node).member.index) + ": " + report.failure;
    Duration pause = config_.first_pause;
    for (uint32_t i = 1; i < failures_; ++i) pause *= 2;
    again_ = now + pause;
  }
}

// A pair counts if both have joined the group that failed: a member that is dead is not cut off.
void GroupCoordinator::CountUnreachable() {
  std::set<Pair> pairs;
  for (auto& [node, member] : in_group_) {
    for (const NodeId other : std::exchange(member.unreachable, {})) {
      const auto at = in_group_.find(other);
      if (other == node || !member.report || at == in_group_.end() || !at->second.report) continue;
      pairs.insert(std::minmax(node, other));
    }
  }
  for (const Pair& pair : pairs) ++unreachable_[pair];
}

std::optional<NodeId> GroupCoordinator::ToExclude() const {
  std::map<NodeId, uint32_t> pairs_of;
  for (const auto& [pair, failures] : unreachable_) {
    ++pairs_of[pair.first];
    ++pairs_of[pair.second];
  }
  std::optional<NodeId> most;
  for (const auto& [pair, failures] : unreachable_) {
    if (failures < kFailuresOfPair) continue;
    const NodeId worse = pairs_of[pair.first] > pairs_of[pair.second] ? pair.first : pair.second;
    if (!most || std::pair(pairs_of[worse], worse) > std::pair(pairs_of[*most], *most)) most = worse;
  }
  return most;
}

void GroupCoordinator::Exclude(Time now, NodeId node) {
  std::erase_if(exclusions_, [&](const auto& one) { return now - one.second.until > config_.max_exclusion; });
  const uint64_t process = members_.at(node).process;
  Exclusion exclusion{.length = process != 0 ? exclusions_[process].length : Duration{0}};
  exclusion.length = std::clamp(2 * exclusion.length, config_.first_exclusion, config_.max_exclusion);
  exclusion.until = now + exclusion.length;
  std::erase_if(unreachable_, [&](const auto& entry) {
    const auto& [first, second] = entry.first;
    if (first != node && second != node) return false;
    exclusion.unreachable.push_back(first == node ? second : first);
    return true;
  });
  if (process != 0) exclusions_[process] = std::move(exclusion);
  excluded_.push_back(node);
}

std::vector<std::pair<NodeId, NodeId>> GroupCoordinator::Unreachable() const {
  std::vector<Pair> pairs;
  if (!Progressed()) {
    for (const auto& [pair, failures] : unreachable_) pairs.push_back(pair);
  }
  for (const auto& [node, waiting] : members_) {
    for (const NodeId other : waiting.unreachable) pairs.emplace_back(node, other);
  }
  return pairs;
}

void GroupCoordinator::SetSource(Time, uint64_t step) {
  source_ = step;
  // Rounds before that step are forgotten, so members below it could not get them.
  if (group_ && phase_ != Phase::kGathering && group_->step < step) {
    const MemberReport* least = Least();
    if (least == nullptr || least->step < step) anew_ = true;
  }
}

void GroupCoordinator::RestartFrom(uint64_t step) {
  source_ = step;
  failure_ = Status();
  failures_ = 0;
  anew_ = group_.has_value();
}

std::optional<uint64_t> GroupCoordinator::RestoreFailed() const {
  if (!from_source_ || phase_ != Phase::kSyncing) return std::nullopt;
  const bool failed = std::ranges::any_of(in_group_, [this](const auto& entry) {
    const auto& report = entry.second.report;
    return report && !report->failure.empty() && !(report->holds && report->step == group_->step);
  });
  return failed ? std::optional(group_->id) : std::nullopt;
}

void GroupCoordinator::Restore(uint64_t id, std::vector<Member> members) {
  in_group_.clear();
  for (const Member& member : members) in_group_[member.node];
  group_ = Group{.id = id, .members = std::move(members), .decided = false, .step = 0};
  phase_ = Phase::kGathering;
  restored_ = true;
}

const MemberReport* GroupCoordinator::Least() const {
  if (phase_ != Phase::kRunning) return nullptr;
  const MemberReport* least = nullptr;
  for (const auto& [node, member] : in_group_) {
    if (least == nullptr || member.report->step < least->step) least = &*member.report;
  }
  return least;
}

const MemberReport* GroupCoordinator::Rejected() const {
  const MemberReport* most = nullptr;
  for (const auto& [node, member] : in_group_) {
    if (!member.report || member.report->consecutive_rejected == 0) continue;
    if (most == nullptr || member.report->consecutive_rejected > most->consecutive_rejected)
      most = &*member.report;
  }
  return most;
}

bool GroupCoordinator::Due(Time now) const {
  if (members_.empty()) return false;
  if (config_.mpi) return !group_ && members_.size() >= config_.workers;
  if (!group_) {
    const auto waiting =
        std::ranges::count_if(members_, [&](const auto& m) { return m.second.since <= now; });
    return waiting >= config_.workers || (waiting > 0 && now - *first_since_ >= config_.first_wait);
  }
  if (anew_ || (again_ && now >= *again_)) return true;
  // The current group is completed before more members are taken in.
  if (phase_ != Phase::kRunning) return false;
  return std::ranges::any_of(members_, [&](const auto& entry) {
    return !in_group_.contains(entry.first) && now - entry.second.since >= config_.join_wait;
  });
}

bool GroupCoordinator::Progressed() const {
  const MemberReport* const least = Least();
  return least != nullptr && least->step > best_;
}

void GroupCoordinator::Name(Time now, uint64_t id) {
  // A failure counts against the group, unless a member left, or it has made progress since the last failure.
  if (anew_ || Progressed()) failures_ = 0;
  if (const MemberReport* least = Least()) best_ = std::max(best_, least->step);
  if (failures_ > config_.max_failures) {
    failure_ = Status(Code::kUnavailable,
                      "the workers repeatedly failed to make a step together; last failure: " + why_);
    return;
  }
  anew_ = false;
  again_.reset();
  group_ = Group{.id = id, .decided = false, .step = 0};
  in_group_.clear();
  for (auto& [node, waiting] : members_) {
    if (waiting.since > now) continue;
    waiting.unreachable.clear();
    group_->members.push_back(waiting.member);
    in_group_[node];
  }
  // By index, independent of the order of arrival, which makes replays easier to read.
  std::ranges::sort(group_->members, {}, [](const Member& member) { return member.index; });
  phase_ = Phase::kGathering;
  from_source_ = restored_ = false;
}

bool GroupCoordinator::AllReported() const {
  return std::ranges::all_of(in_group_, [](const auto& entry) { return entry.second.report.has_value(); });
}

// The group of the former coordinator, all of whose members have reported.
bool GroupCoordinator::ContinueRestored() {
  restored_ = false;
  uint64_t step = ~uint64_t{0};
  const bool started = std::ranges::all_of(in_group_, [&](const auto& entry) {
    const MemberReport& report = *entry.second.report;
    step = std::min(step, report.step);
    return report.failure.empty() && report.holds && report.connected && report.started;
  });
  if (!started || step < source_) {
    if (config_.mpi) {
      group_.reset();
      in_group_.clear();
    }
    anew_ = !config_.mpi;
    return false;
  }
  group_->decided = true;
  group_->step = step;
  phase_ = Phase::kRunning;
  return true;
}

bool GroupCoordinator::Decide() {
  if (!AllReported()) return false;
  NodeId holder;
  uint64_t step = source_;
  bool all = true;
  for (const Member& member : group_->members) {
    const MemberReport& report = *in_group_.at(member.node).report;
    if (report.holds && report.step >= step && (holder == NodeId() || report.step > step)) {
      holder = member.node;
      step = report.step;
    }
  }
  for (const auto& [node, member] : in_group_)
    all = all && member.report->holds && member.report->step == step;
  from_source_ = holder == NodeId();
  group_->decided = true;
  group_->step = step;
  group_->holder = all ? NodeId() : holder;
  phase_ = Phase::kSyncing;
  return true;
}

bool GroupCoordinator::Advance(Time now, const std::function<uint64_t()>& next_id) {
  if (!failure_.ok()) return false;
  if (ending_) {
    // No member is left to be found silent, or the time is over.
    if (members_.empty() || now >= ending_->due) failure_ = Status(Code::kUnavailable, ending_->why);
    return false;
  }
  if (group_ && members_.empty()) {
    group_.reset();
    in_group_.clear();
    phase_ = Phase::kNone;
    anew_ = false;
    again_.reset();
    return true;
  }
  // Without the excluded nobody would train.
  if (std::ranges::all_of(members_, [&](const auto& entry) { return entry.second.since > now; })) {
    for (auto& [node, waiting] : members_) waiting.since = now;
  }
  if (restored_ && !anew_ && AllReported() && ContinueRestored()) return true;
  if (Due(now)) {
    if (Progressed()) unreachable_.clear();  // these have reached each other since then
    CountUnreachable();
    if (const auto node = ToExclude()) {
      Exclude(now, *node);
      return false;
    }
    Name(now, next_id());
    return true;
  }
  if (phase_ == Phase::kGathering) return !restored_ && Decide();
  if (phase_ == Phase::kSyncing && std::ranges::all_of(in_group_, [this](const auto& entry) {
        const MemberReport& report = *entry.second.report;
        return report.failure.empty() && report.holds && report.connected && report.step == group_->step;
      })) {
    phase_ = Phase::kRunning;
  }
  return false;
}

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
