#include "protocol/allreduce/group_member_state.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace leat::protocol {

std::pair<uint32_t, uint32_t> LanesOf(uint32_t rank, uint32_t members, uint32_t width) {
  // Lane v belongs to rank ⌊v · members / width⌋.
  const auto from = [&](uint64_t r) { return static_cast<uint32_t>((r * width + members - 1) / members); };
  return {from(rank), from(uint64_t{rank} + 1)};
}

// ---- groups: joining, leaving, and the state that a group starts from

void GroupMember::State::Quit() {
  if (!group) return;
  actions.emplace_back(LeaveGroup{group->id});
  work.reset();
  rounds.Clear();
  loading.reset();
  connected = sharing = filled = false;
}

void GroupMember::State::Fail(std::string why) {
  if (!failure.empty()) return;
  failure = why.empty() ? "unknown" : std::move(why);
  Quit();
  heartbeat_urgent = true;
}

void GroupMember::State::TakeGroup(const Group& newer) {
  if (group && newer.id < group->id) return;
  if (!group || newer.id > group->id) {
    const auto me =
        std::ranges::find_if(newer.members, [this](const Member& member) { return member.node == node; });
    if (me == newer.members.end()) return;
    Quit();
    group = newer;
    group->decided = false;
    failure.clear();
    unreachable.reset();
    heartbeat_urgent = true;
    rank = static_cast<uint32_t>(me - newer.members.begin());
    // Shards of an earlier group's checkpoint are void.
    shard.Void();
    actions.emplace_back(JoinGroup{newer.id, rank, newer.members});
  }
  if (!newer.decided || group->decided) return;
  group = newer;
  Fill();
}

void GroupMember::State::Fill() {
  if (!group || !group->decided || filled || !failure.empty()) return;
  if (group->holder != NodeId()) {
    if (!connected || sharing) return;
    const auto at = std::ranges::find_if(
        group->members, [this](const Member& member) { return member.node == group->holder; });
    if (at == group->members.end()) return Fail("the one who holds the state is no member");
    sharing = true;
    actions.emplace_back(BroadcastState{group->id, static_cast<uint32_t>(at - group->members.begin())});
    return;
  }
  if (group->orders.empty()) {
    // All members have it.
    if (!holds || held.header().step != group->step)
      return Fail("not at the step that the group starts from");
    return OnStateReady();
  }
  if (loading) return;
  if (group->orders.size() != config.table.slices.size()) return Fail("orders that do not cover all slices");
  for (uint32_t i = 0; i < group->orders.size(); ++i) {
    if (group->orders[i].slice != SliceId(i)) return Fail("orders out of order");
  }
  if (std::ranges::all_of(group->orders, [](const SliceOrder& order) { return order.directory.empty(); })) {
    held.Make(start);
    return OnStateReady();
  }
  loading = Loading{group->orders, {}};
  loading->slices.resize(group->orders.size());
  actions.emplace_back(LoadSlices{group->orders});
}

void GroupMember::State::OnStateReady() {
  if (held.header().step != group->step) {
    holds = false;
    return Fail("the state is of step " + std::to_string(held.header().step) + ", the group starts from " +
                std::to_string(group->step));
  }
  holds = filled = heartbeat_urgent = true;
  // After a restart from a checkpoint, earlier rejections do not count.
  consecutive_rejected = 0;
}

// ---- steps

void GroupMember::State::TakeRounds(const std::vector<Round>& newer) {
  if (!Going()) return;
  const std::string wrong = rounds.Take(newer, held.header().step, start.size());
  if (!wrong.empty()) return Fail(wrong);
  Prepare();
}

void GroupMember::State::Prepare() {
  rounds.Prepare(rank, static_cast<uint32_t>(group->members.size()), held.header().ledger);
}

void GroupMember::State::Advance() {
  if (!Going() || computing) return;
  if (shard.Save(held, *group, rank)) heartbeat_urgent = true;
  while (!rounds.empty() && rounds.front().round.end() <= held.header().step) {
    rounds.PopFront();
    Prepare();
    if (rounds.wanted()) heartbeat_urgent = true;
  }
  if (rounds.empty() || (work && work->reducing)) return;
  if (!work) Start();
  ComputeNext();
}

void GroupMember::State::Start() {
  const MemberRounds::Known& known = rounds.front();
  const uint64_t step = held.header().step;
  work = Work();
  work->lanes.resize(known.width());
  for (uint32_t lane = 0; lane < known.width(); ++lane) {
    // All members have the same ledger, so all omit the same lanes.
    const Ledger::Entry entry = held.ledger().Lookup(known.round.lanes[lane].cut, known.RunOf(lane, step));
    if (entry == Ledger::Entry::kConflict) return Fail("a round that contradicts the ledger");
    work->lanes[lane].kind =
        entry == Ledger::Entry::kDuplicate ? LaneOutcome::Kind::kHeld : LaneOutcome::Kind::kEmpty;
  }
  std::tie(work->first_lane, work->end_lane) =
      LanesOf(rank, static_cast<uint32_t>(group->members.size()), known.width());
  work->lane = work->first_lane;
}

// Computes the next batch of the step, or starts its reduction if there is none.
void GroupMember::State::ComputeNext() {
  if (!work) return;
  const MemberRounds::Known& known = rounds.front();
  const uint64_t step = held.header().step;
  while (work->lane < work->end_lane && work->lanes[work->lane].kind == LaneOutcome::Kind::kHeld)
    ++work->lane;
  if (work->lane == work->end_lane) {
    work->reducing = true;
    work->token = ++last_token;
    actions.emplace_back(
        ReduceStep{work->token, group->id, step, work->lanes, work->first_lane, work->end_lane});
    return;
  }
  const uint64_t lease = rounds.LeaseOf(work->lane);
  if (!rounds.IsReady(lease)) return;
  const Cut& cut = known.round.lanes[work->lane].cut;
  const uint32_t run = known.RunOf(work->lane, step);
  bool last = work->batch + 1 == cut.BatchesOf(run);
  for (uint32_t lane = work->lane + 1; lane < work->end_lane; ++lane) {
    last = last && work->lanes[lane].kind == LaneOutcome::Kind::kHeld;
  }
  computing = true;
  work->token = ++last_token;
  actions.emplace_back(ComputeLane{work->token, lease, run * cut.run + work->batch, step, work->lane,
                                   !std::exchange(work->begun, true), last});
}

void GroupMember::State::Complete(const ReducedStep& step) {
  const MemberRounds::Known& known = rounds.front();
  const uint64_t number = held.header().step;
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
    held.ledger().Record(known.round.lanes[lane].cut, known.RunOf(lane, number));
  }
  if (bad) {
    ++skipped;
    ++consecutive_rejected;
    const auto members = static_cast<uint32_t>(group->members.size());
    const auto width = static_cast<uint32_t>(step.lanes.size());
    const auto by = static_cast<uint32_t>(uint64_t{*bad} * members / width);
    rejected = RejectedRun{group->members[by].node, known.round.lanes[*bad].cut, known.RunOf(*bad, number)};
    heartbeat_urgent = true;
    events = 0;
  } else {
    consecutive_rejected = 0;
    if (events > 0) held.Apply(events, step.terms, known.round.rate, step.moments);
  }
  held.Complete(events);
  work.reset();
}

}  // namespace leat::protocol
