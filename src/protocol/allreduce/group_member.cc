#include "protocol/allreduce/group_member.h"

#include <algorithm>
#include <utility>

#include "protocol/allreduce/group_member_state.h"
#include "protocol/guards.h"

namespace leat::protocol {

GroupMember::GroupMember(GroupMemberConfig config) : state_(std::make_unique<State>(std::move(config))) {}

GroupMember::~GroupMember() = default;

void GroupMember::OnJoined(NodeId node, uint64_t term) {
  state_->node = node;
  state_->term = term;
}

WorkerHeartbeat GroupMember::MakeHeartbeat() {
  State& s = *state_;
  WorkerHeartbeat heartbeat;
  heartbeat.node = s.node;
  heartbeat.term = s.term;
  heartbeat.generation = s.view->generation;
  heartbeat.leaving = s.leaving;
  MemberReport report;
  report.group = s.group ? s.group->id : 0;
  report.holds = s.holds;
  report.connected = s.connected;
  if (s.holds) {
    report.step = s.held.header().step;
    report.events = s.held.header().events;
    report.partitions = s.held.header().ledger.partitions();
  }
  report.rounds_until = s.rounds.End(report.step);
  report.failure = s.failure;
  if (s.unreachable) heartbeat.unreachable = {*s.unreachable};
  report.shard = s.shard.report();
  report.consecutive_rejected = s.consecutive_rejected;
  report.rejected = s.rejected;
  report.skipped = s.skipped;
  report.waiting = s.Waiting();
  report.started = s.filled;
  heartbeat.member_report = std::move(report);
  s.heartbeat_urgent = false;
  return heartbeat;
}

bool GroupMember::HeartbeatUrgent() const {
  const State& s = *state_;
  if (s.stopped) return false;
  // An idle member should report its step at once, because the next rounds depend on it. While a group forms,
  // all its members wait for what each of them learns.
  return s.heartbeat_urgent || (s.Going() ? s.rounds.empty() : s.group.has_value());
}

bool GroupMember::Idle() const {
  return !state_->heartbeat_urgent && HeartbeatUrgent();
}

bool GroupMember::Steady() const {
  return state_->Going() && !HeartbeatUrgent();
}

GroupMemberActions GroupMember::OnHeartbeatReply(const WorkerHeartbeatReply& reply) {
  State& s = *state_;
  if (s.stopped || !guards::CurrentTerm(reply.term, s.term)) return {};
  if (reply.view) s.view = reply.view;
  if (reply.evicted || reply.stop) {
    s.Quit();
    s.group.reset();
    s.holds = s.holds && !reply.evicted;
    s.stopped = true;
    s.actions.emplace_back(StopRole{reply.evicted && !s.leaving});
    return s.Take();
  }
  if (reply.term != s.term) {
    // The next report, to the new coordinator, is complete as always.
    s.term = reply.term;
    s.heartbeat_urgent = true;
    return {};
  }
  if (reply.drain && !s.leaving) Leave();
  if (!reply.start.empty()) s.start = reply.start;
  const uint64_t before = s.group ? s.group->id : 0;
  if (reply.group) s.TakeGroup(*reply.group);
  const bool same = s.group && s.group->id == before;
  if (same) s.TakeRounds(reply.rounds);
  if (same && reply.checkpoint) s.shard.TakeOrder(*reply.checkpoint);
  s.Advance();
  return s.Take();
}

void GroupMember::Leave() {
  state_->leaving = state_->heartbeat_urgent = true;
}

GroupMemberActions GroupMember::OnSplitReady(uint64_t lease) {
  State& s = *state_;
  s.rounds.OnSplitReady(lease);
  s.Advance();
  return s.Take();
}

GroupMemberActions GroupMember::OnSplitFailed(uint64_t lease) {
  state_->rounds.OnSplitFailed(lease);
  return state_->Take();
}

GroupMemberActions GroupMember::OnComputed(uint64_t token, const BatchOutcome& outcome) {
  State& s = *state_;
  s.computing = false;
  if (s.work && !s.work->reducing && s.work->token == token) {
    const auto& known = s.rounds.front();
    State::Work& work = *s.work;
    LaneOutcome& lane = work.lanes[work.lane];
    if (outcome.disposition == Disposition::kRejected) {
      lane.kind = LaneOutcome::Kind::kRejected;
    } else if (outcome.disposition == Disposition::kGradient && outcome.events > 0) {
      if (lane.kind == LaneOutcome::Kind::kEmpty) lane.kind = LaneOutcome::Kind::kGradient;
      lane.events += outcome.events;
    }
    const uint32_t run = known.RunOf(work.lane, s.held.header().step);
    if (++work.batch == known.round.lanes[work.lane].cut.BatchesOf(run)) {
      work.batch = 0;
      ++work.lane;
    }
  }
  s.Advance();
  return s.Take();
}

GroupMemberActions GroupMember::OnConnected(uint64_t group, const Status& status) {
  State& s = *state_;
  if (!s.group || !guards::SameGroup(group, s.group->id) || !s.failure.empty() || s.stopped) return {};
  if (status.ok()) {
    s.connected = s.heartbeat_urgent = true;
    s.Fill();
  } else {
    s.Fail(status.ToString());
  }
  s.Advance();
  return s.Take();
}

void GroupMember::OnUnreachable(uint64_t group, uint32_t rank) {
  State& s = *state_;
  if (!s.group || !guards::SameGroup(group, s.group->id) || rank >= s.group->members.size()) return;
  s.unreachable = s.group->members[rank].node;
}

GroupMemberActions GroupMember::OnStateReceived(uint64_t group, Result<Snapshot> state) {
  State& s = *state_;
  if (!s.group || !guards::SameGroup(group, s.group->id) || !s.sharing || s.filled) return {};
  s.sharing = false;
  if (!state.ok()) {
    s.Fail(state.status().ToString());
  } else if (s.group->holder == s.node) {
    s.OnStateReady();
  } else {
    // The old state is released only here, after the new one has arrived completely.
    const Status taken = s.held.Adopt(std::move(state->header), state->memory, s.start.size());
    if (taken.ok()) {
      s.OnStateReady();
    } else {
      s.Fail(taken.ToString());
    }
  }
  s.Advance();
  return s.Take();
}

GroupMemberActions GroupMember::OnReduced(uint64_t token, Result<ReducedStep> step) {
  State& s = *state_;
  if (!s.work || !s.work->reducing || s.work->token != token) return {};
  if (!step.ok()) {
    s.Fail(step.status().ToString());
    return s.Take();
  }
  // The outcomes of other members' lanes must be possible, and those of own lanes unchanged.
  bool fits = step->lanes.size() == s.work->lanes.size();
  for (uint32_t lane = 0; fits && lane < step->lanes.size(); ++lane) {
    const LaneOutcome& outcome = step->lanes[lane];
    const LaneOutcome& mine = s.work->lanes[lane];
    fits = outcome.kind <= LaneOutcome::Kind::kRejected &&
           (outcome.kind == LaneOutcome::Kind::kHeld) == (mine.kind == LaneOutcome::Kind::kHeld) &&
           (outcome.kind != LaneOutcome::Kind::kGradient || outcome.events > 0);
    if (lane >= s.work->first_lane && lane < s.work->end_lane) fits = fits && outcome == mine;
  }
  if (fits) {
    s.Complete(*step);
  } else {
    s.Fail("the step's lanes contradict this member's");
  }
  s.Advance();
  return s.Take();
}

GroupMemberActions GroupMember::OnBroken(uint64_t group, const Status& why) {
  State& s = *state_;
  if (!s.group || !guards::SameGroup(group, s.group->id) || s.stopped) return {};
  s.Fail(why.ToString());
  return s.Take();
}

GroupMemberActions GroupMember::OnSliceLoaded(const SliceOrder& order, Result<Slice> slice) {
  State& s = *state_;
  if (!s.loading || order.slice.value >= s.loading->orders.size() ||
      s.loading->orders[order.slice.value] != order) {
    return {};
  }
  if (!slice.ok()) {
    s.Fail(slice.status().With(order.directory + "/" + order.file).ToString());
    return s.Take();
  }
  slice->id = order.slice;
  slice->incarnation = order.incarnation;
  s.loading->slices[order.slice.value] = std::move(*slice);
  if (!std::ranges::all_of(s.loading->slices, [](const auto& loaded) { return loaded.has_value(); }))
    return {};
  std::vector<Slice> slices;
  for (auto& loaded : s.loading->slices) slices.push_back(std::move(*loaded));
  s.loading.reset();
  if (const Status taken = s.held.Take(slices, s.start.size()); taken.ok()) {
    s.OnStateReady();
  } else {
    s.Fail(taken.With(order.directory).ToString());
  }
  s.Advance();
  return s.Take();
}

std::vector<uint64_t> GroupMember::BytesToSave() const {
  const State& s = *state_;
  std::vector<uint64_t> sizes;
  if (!s.group || !s.config.parameters) return sizes;
  for (const SliceId slice : s.shard.SlicesOf(*s.group, s.rank)) sizes.push_back(s.held.BytesOf(slice));
  return sizes;
}

void GroupMember::OnShardSaved(ShardReport report) {
  State& s = *state_;
  if (s.shard.OnSaved(std::move(report))) s.heartbeat_urgent = true;
}

const View& GroupMember::view() const {
  return *state_->view;
}

uint64_t GroupMember::term() const {
  return state_->term;
}

bool GroupMember::holds() const {
  return state_->holds;
}

std::optional<MemberValues> GroupMember::values() const {
  const State& s = *state_;
  if (!s.group || !s.holds || !s.filled) return std::nullopt;
  return MemberValues{Incarnation(s.group->id), s.held.header().step};
}

const TrainingState& GroupMember::state() const {
  return state_->held;
}

}  // namespace leat::protocol
