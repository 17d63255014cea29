#include "protocol/allreduce/group_member.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "protocol/guards.h"
#include "protocol/placement.h"

namespace leat::protocol {

namespace {

// The maximum number of lanes in a round; limits what a peer can request.
constexpr size_t kMaxLanes = 1 << 16;

bool WellFormed(const Round& round, size_t partitions, bool late_labels) {
  if (round.lanes.empty() || round.lanes.size() > kMaxLanes || !ValidRate(round.rate)) return false;
  const uint32_t runs = round.lanes.front().assigned.count();
  return runs > 0 && std::ranges::all_of(round.lanes, [&](const Round::Lane& lane) {
           return lane.cut.valid() && lane.cut.partition < partitions &&
                  lane.assigned.size() == lane.cut.runs() && lane.assigned.count() == runs &&
                  lane.labels.has_value() == late_labels;
         });
}

std::vector<uint32_t> RunsIn(const RunSet& assigned) {
  std::vector<uint32_t> runs;
  for (uint32_t i = 0; i < assigned.size(); ++i) {
    if (assigned.Has(i)) runs.push_back(i);
  }
  return runs;
}

}  // namespace

Status CheckPull(const PushRequest& request, size_t slices) {
  const bool pull = request.disposition == Disposition::kPull && !request.step_lane &&
                    request.version_wanted == 0 && !request.exact && request.counted.empty();
  if (!pull) return {Code::kInvalidArgument, "a member answers pulls of values, and nothing else"};
  const SliceRef* before = nullptr;
  for (const SliceRef& ref : request.slices) {
    if (ref.slice.value >= slices || (before && ref.slice <= before->slice)) {
      return {Code::kInvalidArgument, "pull: slice " + ToString(ref.slice) + " of " + std::to_string(slices) +
                                          " is unknown or out of order"};
    }
    before = &ref;
  }
  return {};
}

PushReply AnswerPull(const PushRequest& request, const View& view,
                     const std::optional<MemberValues>& values) {
  PushReply reply{request.sequence, view.generation, false, {}, {}};
  const Member* const member = view.Find(request.worker);
  // A requester with a newer view has joined after ours was made.
  const bool follows = member ? member->role == Role::kServe : request.generation > view.generation;
  reply.evicted = !guards::IsMember(follows);
  reply.slices.reserve(request.slices.size());
  for (const SliceRef& ref : request.slices) {
    SliceReply& slice = reply.slices.emplace_back();
    slice = {ref.slice, SliceOutcome::kNotHere, false, ref.incarnation, 0};
    if (!values || reply.evicted) continue;
    slice.outcome = SliceOutcome::kPulled;
    slice.incarnation = values->incarnation;
    slice.version = values->step;
    slice.values =
        request.want_values && (ref.incarnation != values->incarnation || ref.version != values->step);
  }
  return reply;
}

std::string MemberRounds::Take(const std::vector<Round>& newer, uint64_t step, size_t partitions) {
  for (const Round& round : newer) {
    if (!WellFormed(round, partitions, late_labels_)) return "a round that is none";
    const uint64_t next = End(step);
    // Repeated by a delayed reply.
    if (round.end() <= next) continue;
    if (round.first_step > next || (!rounds_.empty() && round.first_step != next)) {
      return "a round from step " + std::to_string(round.first_step) + " on where " + std::to_string(next) +
             " is next";
    }
    Known known{round, {}, {}};
    for (const Round::Lane& lane : round.lanes) known.runs.push_back(RunsIn(lane.assigned));
    rounds_.push_back(std::move(known));
  }
  return {};
}

void MemberRounds::Prepare(uint32_t rank, uint32_t members, const Ledger& ledger) {
  for (size_t i = 0; i < rounds_.size() && i < kRoundsAhead; ++i) {
    Known& known = rounds_[i];
    const auto [first, end] = LanesOf(rank, members, known.width());
    for (uint32_t number = first; number < end; ++number) {
      if (known.leases.contains(number)) continue;
      const Round::Lane& lane = known.round.lanes[number];
      Lease lease{.id = ++last_lease_,
                  .cut = lane.cut,
                  .missing = lane.assigned,
                  .first_step = known.round.first_step,
                  .lane = number,
                  .width = known.width(),
                  .needed = known.width(),
                  .assigned = lane.assigned,
                  .rate = known.round.rate,
                  .labels = lane.labels};
      lease.missing &= ledger.Held(lane.cut).Complement();
      known.leases[number] = lease.id;
      ready_[lease.id] = false;
      actions_.emplace_back(PrepareSplit{lease});
      leases_[lease.id] = std::move(lease);
    }
  }
}

void MemberRounds::Drop(Known* known) {
  for (const auto& [lane, lease] : known->leases) {
    actions_.emplace_back(DropSplit{lease});
    leases_.erase(lease);
    ready_.erase(lease);
  }
}

void MemberRounds::PopFront() {
  Drop(&rounds_.front());
  rounds_.pop_front();
}

void MemberRounds::Clear() {
  for (Known& known : rounds_) Drop(&known);
  rounds_.clear();
}

void MemberRounds::OnSplitReady(uint64_t lease) {
  if (auto at = ready_.find(lease); at != ready_.end()) at->second = true;
}

void MemberRounds::OnSplitFailed(uint64_t lease) {
  const auto at = leases_.find(lease);
  if (at == leases_.end()) return;
  actions_.emplace_back(DropSplit{lease});
  actions_.emplace_back(PrepareSplit{at->second});
}

std::vector<SliceId> MemberShard::SlicesOf(const Group& group, uint32_t rank) const {
  const auto ranks = Place(table_, Placement::kPartitioned, static_cast<uint32_t>(group.members.size()));
  std::vector<SliceId> slices;
  for (uint32_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i] == rank) slices.emplace_back(i);
  }
  return slices;
}

bool MemberShard::Save(const TrainingState& held, const Group& group, uint32_t rank) {
  const uint64_t step = held.header().step;
  if (!order_ || saving_ || order_->version > step) return false;
  const CheckpointOrder order = *std::exchange(order_, std::nullopt);
  last_ = order.id;
  report_.reset();
  saved_.clear();
  SaveShard save{order, {}};
  if (order.version == step) {
    const Incarnation incarnation(group.id);
    for (const SliceId slice : SlicesOf(group, rank)) {
      save.slices.push_back(held.Copy(slice, incarnation, allocate_));
      saved_.push_back({slice, incarnation});
    }
  }
  if (!save.slices.empty()) {
    saving_ = order.id;
    actions_.emplace_back(std::move(save));
    return false;
  }
  // A shard without slices is complete: there are more members than slices.
  report_.emplace().checkpoint = order.id;
  if (order.version < step) {
    report_->status =
        Status(Code::kFailedPrecondition, "a checkpoint of step " + std::to_string(order.version) +
                                              " was ordered at step " + std::to_string(step));
  }
  return true;
}

bool MemberShard::OnSaved(ShardReport report) {
  if (!saving_ || *saving_ != report.checkpoint) return false;
  saving_.reset();
  report.slices = saved_;
  report_ = std::move(report);
  return true;
}

std::pair<uint32_t, uint32_t> LanesOf(uint32_t rank, uint32_t members, uint32_t width) {
  // Lane v belongs to rank ⌊v · members / width⌋.
  const auto from = [&](uint64_t r) { return static_cast<uint32_t>((r * width + members - 1) / members); };
  return {from(rank), from(uint64_t{rank} + 1)};
}

// ---- groups: joining, leaving, and the state that a group starts from

void GroupMember::Quit() {
  if (!group_) return;
  actions_.emplace_back(LeaveGroup{group_->id});
  work_.reset();
  rounds_.Clear();
  loading_.reset();
  connected_ = sharing_ = filled_ = false;
}

void GroupMember::Fail(std::string why) {
  if (!failure_.empty()) return;
  failure_ = why.empty() ? "unknown" : std::move(why);
  Quit();
  heartbeat_urgent_ = true;
}

void GroupMember::TakeGroup(const Group& newer) {
  if (group_ && newer.id < group_->id) return;
  if (!group_ || newer.id > group_->id) {
    const auto me =
        std::ranges::find_if(newer.members, [this](const Member& member) { return member.node == node_; });
    if (me == newer.members.end()) return;
    Quit();
    group_ = newer;
    group_->decided = false;
    failure_.clear();
    unreachable_.reset();
    heartbeat_urgent_ = true;
    rank_ = static_cast<uint32_t>(me - newer.members.begin());
    // Shards of an earlier group's checkpoint are void.
    shard_.Void();
    actions_.emplace_back(JoinGroup{newer.id, rank_, newer.members});
  }
  if (!newer.decided || group_->decided) return;
  group_ = newer;
  Fill();
}

void GroupMember::Fill() {
  if (!group_ || !group_->decided || filled_ || !failure_.empty()) return;
  if (group_->holder != NodeId()) {
    if (!connected_ || sharing_) return;
    const auto at = std::ranges::find_if(
        group_->members, [this](const Member& member) { return member.node == group_->holder; });
    if (at == group_->members.end()) return Fail("the one who holds the state is no member");
    sharing_ = true;
    actions_.emplace_back(BroadcastState{group_->id, static_cast<uint32_t>(at - group_->members.begin())});
    return;
  }
  if (group_->orders.empty()) {
    // All members have it.
    if (!holds_ || held_.header().step != group_->step)
      return Fail("not at the step that the group starts from");
    return OnStateReady();
  }
  if (loading_) return;
  if (group_->orders.size() != config_.table.slices.size())
    return Fail("orders that do not cover all slices");
  for (uint32_t i = 0; i < group_->orders.size(); ++i) {
    if (group_->orders[i].slice != SliceId(i)) return Fail("orders out of order");
  }
  if (std::ranges::all_of(group_->orders, [](const SliceOrder& order) { return order.directory.empty(); })) {
    held_.Make(start_);
    return OnStateReady();
  }
  loading_ = Loading{group_->orders, {}};
  loading_->slices.resize(group_->orders.size());
  actions_.emplace_back(LoadSlices{group_->orders});
}

void GroupMember::OnStateReady() {
  if (held_.header().step != group_->step) {
    holds_ = false;
    return Fail("the state is of step " + std::to_string(held_.header().step) + ", the group starts from " +
                std::to_string(group_->step));
  }
  holds_ = filled_ = heartbeat_urgent_ = true;
  // After a restart from a checkpoint, earlier rejections do not count.
  consecutive_rejected_ = 0;
}

// ---- steps

void GroupMember::Prepare() {
  rounds_.Prepare(rank_, static_cast<uint32_t>(group_->members.size()), held_.header().ledger);
}

void GroupMember::Advance() {
  if (!Going() || computing_) return;
  if (shard_.Save(held_, *group_, rank_)) heartbeat_urgent_ = true;
  while (!rounds_.empty() && rounds_.front().round.end() <= held_.header().step) {
    rounds_.PopFront();
    Prepare();
    if (rounds_.wanted()) heartbeat_urgent_ = true;
  }
  if (rounds_.empty() || (work_ && work_->reducing)) return;
  if (!work_) Start();
  ComputeNext();
}

void GroupMember::Start() {
  const MemberRounds::Known& known = rounds_.front();
  const uint64_t step = held_.header().step;
  work_ = Work();
  work_->lanes.resize(known.width());
  for (uint32_t lane = 0; lane < known.width(); ++lane) {
    // All members have the same ledger, so all omit the same lanes.
    const Ledger::Entry entry = held_.ledger().Lookup(known.round.lanes[lane].cut, known.RunOf(lane, step));
    if (entry == Ledger::Entry::kConflict) return Fail("a round that contradicts the ledger");
    work_->lanes[lane].kind =
        entry == Ledger::Entry::kDuplicate ? LaneOutcome::Kind::kHeld : LaneOutcome::Kind::kEmpty;
  }
  std::tie(work_->first_lane, work_->end_lane) =
      LanesOf(rank_, static_cast<uint32_t>(group_->members.size()), known.width());
  work_->lane = work_->first_lane;
}

// Computes the next batch of the step, or starts its reduction if there is none.
void GroupMember::ComputeNext() {
  if (!work_) return;
  const MemberRounds::Known& known = rounds_.front();
  const uint64_t step = held_.header().step;
  while (work_->lane < work_->end_lane && work_->lanes[work_->lane].kind == LaneOutcome::Kind::kHeld)
    ++work_->lane;
  if (work_->lane == work_->end_lane) {
    work_->reducing = true;
    work_->token = ++last_token_;
    actions_.emplace_back(
        ReduceStep{work_->token, group_->id, step, work_->lanes, work_->first_lane, work_->end_lane});
    return;
  }
  const uint64_t lease = rounds_.LeaseOf(work_->lane);
  if (!rounds_.IsReady(lease)) return;
  const Cut& cut = known.round.lanes[work_->lane].cut;
  const uint32_t run = known.RunOf(work_->lane, step);
  bool last = work_->batch + 1 == cut.BatchesOf(run);
  for (uint32_t lane = work_->lane + 1; lane < work_->end_lane; ++lane) {
    last = last && work_->lanes[lane].kind == LaneOutcome::Kind::kHeld;
  }
  computing_ = true;
  work_->token = ++last_token_;
  actions_.emplace_back(ComputeLane{work_->token, lease, run * cut.run + work_->batch, step, work_->lane,
                                    !std::exchange(work_->begun, true), last});
}

void GroupMember::Complete(const ReducedStep& step) {
  const MemberRounds::Known& known = rounds_.front();
  const uint64_t number = held_.header().step;
  uint64_t events = 0;
  std::optional<uint32_t> bad;
  for (uint32_t lane = 0; lane < step.lanes.size(); ++lane) {
    const LaneOutcome& outcome = step.lanes[lane];
    if (outcome.kind == LaneOutcome::Kind::kGradient) events += outcome.events;
    if (outcome.kind == LaneOutcome::Kind::kRejected && !bad) bad = lane;
  }
  if (!step.finite && !bad) {
    const auto at = std::ranges::find_if(
        step.lanes, [](const LaneOutcome& outcome) { return outcome.kind == LaneOutcome::Kind::kGradient; });
    bad = at == step.lanes.end() ? 0 : static_cast<uint32_t>(at - step.lanes.begin());
  }
  for (uint32_t lane = 0; lane < step.lanes.size(); ++lane) {
    held_.ledger().Record(known.round.lanes[lane].cut, known.RunOf(lane, number));
  }
  if (bad) {
    ++skipped_;
    ++consecutive_rejected_;
    const auto members = static_cast<uint32_t>(group_->members.size());
    const auto width = static_cast<uint32_t>(step.lanes.size());
    const auto by = static_cast<uint32_t>(uint64_t{*bad} * members / width);
    rejected_ = RejectedRun{group_->members[by].node, known.round.lanes[*bad].cut, known.RunOf(*bad, number)};
    heartbeat_urgent_ = true;
    events = 0;
  } else {
    consecutive_rejected_ = 0;
    if (events > 0) held_.Apply(events, step.terms, known.round.rate, step.moments);
  }
  held_.Complete(events);
  work_.reset();
}

// ---- events from the shell

WorkerHeartbeat GroupMember::MakeHeartbeat() {
  WorkerHeartbeat heartbeat;
  heartbeat.node = node_;
  heartbeat.term = term_;
  heartbeat.generation = view_->generation;
  heartbeat.leaving = leaving_;
  MemberReport report;
  report.group = group_ ? group_->id : 0;
  report.holds = holds_;
  report.connected = connected_;
  if (holds_) {
    report.step = held_.header().step;
    report.events = held_.header().events;
    report.partitions = held_.header().ledger.partitions();
  }
  report.rounds_until = rounds_.End(report.step);
  report.failure = failure_;
  if (unreachable_) heartbeat.unreachable = {*unreachable_};
  report.shard = shard_.report();
  report.consecutive_rejected = consecutive_rejected_;
  report.rejected = rejected_;
  report.skipped = skipped_;
  report.waiting = Waiting();
  report.started = filled_;
  heartbeat.member_report = std::move(report);
  heartbeat_urgent_ = false;
  return heartbeat;
}

bool GroupMember::HeartbeatUrgent() const {
  if (stopped_) return false;
  // An idle member should report its step at once, because the next rounds depend on it. While a group forms,
  // all its members wait for what each of them learns.
  return heartbeat_urgent_ || (Going() ? rounds_.empty() : group_.has_value());
}

GroupMemberActions GroupMember::OnHeartbeatReply(const WorkerHeartbeatReply& reply) {
  if (stopped_ || !guards::CurrentTerm(reply.term, term_)) return {};
  if (reply.view) view_ = reply.view;
  if (reply.evicted || reply.stop) {
    Quit();
    group_.reset();
    holds_ = holds_ && !reply.evicted;
    stopped_ = true;
    actions_.emplace_back(StopRole{reply.evicted && !leaving_});
    return Take();
  }
  if (reply.term != term_) {
    // The next report, to the new coordinator, is complete as always.
    term_ = reply.term;
    heartbeat_urgent_ = true;
    return {};
  }
  if (reply.drain && !leaving_) Leave();
  if (!reply.start.empty()) start_ = reply.start;
  const uint64_t before = group_ ? group_->id : 0;
  if (reply.group) TakeGroup(*reply.group);
  const bool same = group_ && group_->id == before;
  if (same && Going()) {
    const std::string wrong = rounds_.Take(reply.rounds, held_.header().step, start_.size());
    wrong.empty() ? Prepare() : Fail(wrong);
  }
  if (same && reply.checkpoint) shard_.TakeOrder(*reply.checkpoint);
  Advance();
  return Take();
}

GroupMemberActions GroupMember::OnSplitReady(uint64_t lease) {
  rounds_.OnSplitReady(lease);
  Advance();
  return Take();
}

GroupMemberActions GroupMember::OnSplitFailed(uint64_t lease) {
  rounds_.OnSplitFailed(lease);
  return Take();
}

GroupMemberActions GroupMember::OnComputed(uint64_t token, const BatchOutcome& outcome) {
  computing_ = false;
  if (work_ && !work_->reducing && work_->token == token) {
    const auto& known = rounds_.front();
    Work& work = *work_;
    LaneOutcome& lane = work.lanes[work.lane];
    if (outcome.disposition == Disposition::kRejected) {
      lane.kind = LaneOutcome::Kind::kRejected;
    } else if (outcome.disposition == Disposition::kGradient && outcome.events > 0) {
      if (lane.kind == LaneOutcome::Kind::kEmpty) lane.kind = LaneOutcome::Kind::kGradient;
      lane.events += outcome.events;
    }
    const uint32_t run = known.RunOf(work.lane, held_.header().step);
    if (++work.batch == known.round.lanes[work.lane].cut.BatchesOf(run)) {
      work.batch = 0;
      ++work.lane;
    }
  }
  Advance();
  return Take();
}

GroupMemberActions GroupMember::OnConnected(uint64_t group, const Status& status) {
  if (!group_ || !guards::SameGroup(group, group_->id) || !failure_.empty() || stopped_) return {};
  if (status.ok()) {
    connected_ = heartbeat_urgent_ = true;
    Fill();
  } else {
    Fail(status.ToString());
  }
  Advance();
  return Take();
}

void GroupMember::OnUnreachable(uint64_t group, uint32_t rank) {
  if (!group_ || !guards::SameGroup(group, group_->id) || rank >= group_->members.size()) return;
  unreachable_ = group_->members[rank].node;
}

GroupMemberActions GroupMember::OnStateReceived(uint64_t group, Result<Snapshot> state) {
  if (!group_ || !guards::SameGroup(group, group_->id) || !sharing_ || filled_) return {};
  sharing_ = false;
  if (!state.ok()) {
    Fail(state.status().ToString());
  } else if (group_->holder == node_) {
    OnStateReady();
  } else {
    // The old state is released only here, after the new one has arrived completely.
    const Status taken = held_.Adopt(std::move(state->header), state->memory, start_.size());
    if (taken.ok()) {
      OnStateReady();
    } else {
      Fail(taken.ToString());
    }
  }
  Advance();
  return Take();
}

GroupMemberActions GroupMember::OnReduced(uint64_t token, Result<ReducedStep> step) {
  if (!work_ || !work_->reducing || work_->token != token) return {};
  if (!step.ok()) {
    Fail(step.status().ToString());
    return Take();
  }
  // The outcomes of other members' lanes must be possible, and those of own lanes unchanged.
  bool fits = step->lanes.size() == work_->lanes.size();
  for (uint32_t lane = 0; fits && lane < step->lanes.size(); ++lane) {
    const LaneOutcome& outcome = step->lanes[lane];
    const LaneOutcome& mine = work_->lanes[lane];
    fits = outcome.kind <= LaneOutcome::Kind::kRejected &&
           (outcome.kind == LaneOutcome::Kind::kHeld) == (mine.kind == LaneOutcome::Kind::kHeld) &&
           (outcome.kind != LaneOutcome::Kind::kGradient || outcome.events > 0);
    if (lane >= work_->first_lane && lane < work_->end_lane) fits = fits && outcome == mine;
  }
  if (fits) {
    Complete(*step);
  } else {
    Fail("the step's lanes contradict this member's");
  }
  Advance();
  return Take();
}

GroupMemberActions GroupMember::OnBroken(uint64_t group, const Status& why) {
  if (!group_ || !guards::SameGroup(group, group_->id) || stopped_) return {};
  Fail(why.ToString());
  return Take();
}

GroupMemberActions GroupMember::OnSliceLoaded(const SliceOrder& order, Result<Slice> slice) {
  if (!loading_ || order.slice.value >= loading_->orders.size() ||
      loading_->orders[order.slice.value] != order) {
    return {};
  }
  if (!slice.ok()) {
    Fail(slice.status().With(order.directory + "/" + order.file).ToString());
    return Take();
  }
  slice->id = order.slice;
  slice->incarnation = order.incarnation;
  loading_->slices[order.slice.value] = std::move(*slice);
  if (!std::ranges::all_of(loading_->slices, [](const auto& loaded) { return loaded.has_value(); }))
    return {};
  std::vector<Slice> slices;
  for (auto& loaded : loading_->slices) slices.push_back(std::move(*loaded));
  loading_.reset();
  if (const Status taken = held_.Take(slices, start_.size()); taken.ok()) {
    OnStateReady();
  } else {
    Fail(taken.With(order.directory).ToString());
  }
  Advance();
  return Take();
}

std::vector<uint64_t> GroupMember::BytesToSave() const {
  std::vector<uint64_t> sizes;
  if (!group_ || !config_.parameters) return sizes;
  for (const SliceId slice : shard_.SlicesOf(*group_, rank_)) sizes.push_back(held_.BytesOf(slice));
  return sizes;
}

void GroupMember::OnShardSaved(ShardReport report) {
  if (shard_.OnSaved(std::move(report))) heartbeat_urgent_ = true;
}

std::optional<MemberValues> GroupMember::values() const {
  if (!group_ || !holds_ || !filled_) return std::nullopt;
  return MemberValues{Incarnation(group_->id), held_.header().step};
}

}  // namespace leat::protocol
