#include "protocol/member/group_member.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "protocol/guards.h"
#include "protocol/placement.h"

namespace leat::protocol {

namespace {

// Lanes of a round, so that no peer can make one of any size.
constexpr size_t kMaxLanes = 1 << 16;
// Rounds that a member knows are asked for one ahead of the one being trained, so that its splits are ready.
constexpr size_t kRoundsAhead = 2;

bool WellFormed(const Round& round, size_t partitions) {
  if (round.lanes.empty() || round.lanes.size() > kMaxLanes) return false;
  const uint32_t runs = round.lanes.front().assigned.count();
  return runs > 0 && std::ranges::all_of(round.lanes, [&](const Round::Lane& part) {
           return part.cut.valid() && part.cut.partition < partitions &&
                  part.assigned.size() == part.cut.runs() && part.assigned.count() == runs;
         });
}

std::vector<uint32_t> RunsOf(const RunSet& assigned) {
  std::vector<uint32_t> runs;
  for (uint32_t i = 0; i < assigned.size(); ++i) {
    if (assigned.Has(i)) runs.push_back(i);
  }
  return runs;
}

}  // namespace

std::pair<uint32_t, uint32_t> LanesOf(uint32_t rank, uint32_t members, uint32_t width) {
  // Lane v is of rank ⌊v · members / width⌋.
  const auto from = [&](uint64_t r) { return static_cast<uint32_t>((r * width + members - 1) / members); };
  return {from(rank), from(uint64_t{rank} + 1)};
}

struct GroupMember::State {
  struct Known {
    Round round;
    std::vector<std::vector<uint32_t>> runs;  // by lane: the run of each step
    std::map<uint32_t, uint64_t> leases;      // of own lanes
  };
  // The step under way.
  struct Work {
    uint64_t token = 0;  // of what is waited for
    std::vector<LaneOutcome> lanes;
    uint32_t first_lane = 0, end_lane = 0;
    uint32_t lane = 0;   // being computed; end_lane: all are
    uint32_t batch = 0;  // of that lane's run
    bool begun = false;
    bool reducing = false;
  };
  struct Loading {
    std::vector<SliceOrder> orders;
    std::vector<std::optional<Slice>> slices;
  };

  explicit State(GroupMemberConfig c)
      : config(std::move(c)), held(config.table, config.optimizer, config.strategy, config.parameters) {}

  // ---- groups
  void TakeGroup(const Group& newer);
  void Quit();
  void Fail(std::string why);
  void Fill();
  void OnStateReady();  // the state that the group starts from is here
  bool Going() const {
    return group && group->decided && failure.empty() && holds && connected && !stopped && filled &&
           held.header().step >= group->step;
  }
  // ---- steps
  void TakeRounds(const std::vector<Round>& newer);
  void Prepare();
  void Forget(Known& known);
  void Advance();
  void Start();
  void ComputeNext();
  void Complete(const ReducedStep& step);
  void Save();
  GroupMemberActions Take() { return std::exchange(actions, {}); }

  GroupMemberConfig config;
  NodeId node;
  leat::Shared<View> view = View();
  std::vector<Position> start;
  TrainingState held;
  bool holds = false;

  std::optional<Group> group;
  uint32_t rank = 0;
  bool connected = false;
  bool sharing = false;
  bool filled = false;
  std::string failure;
  std::optional<Loading> loading;

  std::deque<Known> rounds;  // that have steps from the one held on
  std::map<uint64_t, Lease> leases;
  std::map<uint64_t, bool> ready;  // by lease
  uint64_t last_lease = 0;
  uint64_t last_token = 0;
  std::optional<Work> work;
  bool computing = false;  // the shell is, maybe for a group that is no more

  std::optional<CheckpointOrder> checkpoint;  // not begun yet
  uint64_t last_checkpoint = 0;
  std::optional<uint64_t> saving;
  std::vector<SliceIncarnation> saved;
  std::optional<ShardReport> shard;

  uint32_t consecutive_rejected = 0;
  std::optional<RejectedRun> rejected;
  uint64_t skipped = 0;
  bool heartbeat_urgent = false;
  bool leaving = false;
  bool stopped = false;
  GroupMemberActions actions;
};

// ---- groups

void GroupMember::State::Quit() {
  if (!group) return;
  actions.emplace_back(LeaveGroup{group->id});
  work.reset();
  for (Known& known : rounds) Forget(known);
  rounds.clear();
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
    heartbeat_urgent = true;
    rank = static_cast<uint32_t>(me - newer.members.begin());
    // Shards of an earlier group's checkpoint count for nothing.
    checkpoint.reset();
    shard.reset();
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
    // Everybody has it.
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
  // Whoever starts anew from a checkpoint has no past.
  consecutive_rejected = 0;
}

// ---- rounds

void GroupMember::State::TakeRounds(const std::vector<Round>& newer) {
  if (!Going()) return;
  for (const Round& round : newer) {
    if (!WellFormed(round, start.size())) return Fail("a round that is none");
    const uint64_t next = rounds.empty() ? held.header().step : rounds.back().round.end();
    // What a reply that was overtaken repeats.
    if (round.end() <= next) continue;
    if (round.first_step > next || (!rounds.empty() && round.first_step != next)) {
      return Fail("a round from step " + std::to_string(round.first_step) + " on where " +
                  std::to_string(next) + " is next");
    }
    Known known{round, {}, {}};
    for (const Round::Lane& part : round.lanes) known.runs.push_back(RunsOf(part.assigned));
    rounds.push_back(std::move(known));
  }
  Prepare();
}

void GroupMember::State::Prepare() {
  for (size_t i = 0; i < rounds.size() && i < kRoundsAhead; ++i) {
    Known& known = rounds[i];
    const auto width = static_cast<uint32_t>(known.round.lanes.size());
    const auto [first, end] = LanesOf(rank, static_cast<uint32_t>(group->members.size()), width);
    for (uint32_t lane = first; lane < end; ++lane) {
      if (known.leases.contains(lane)) continue;
      const Round::Lane& part = known.round.lanes[lane];
      Lease lease{.id = ++last_lease,
                  .cut = part.cut,
                  .missing = part.assigned,
                  .first_step = known.round.first_step,
                  .lane = lane,
                  .width = width,
                  .needed = width,
                  .assigned = part.assigned};
      lease.missing &= held.ledger().Held(part.cut).Complement();
      known.leases[lane] = lease.id;
      ready[lease.id] = false;
      actions.emplace_back(PrepareSplit{lease});
      leases[lease.id] = std::move(lease);
    }
  }
}

void GroupMember::State::Forget(Known& known) {
  for (const auto& [lane, lease] : known.leases) {
    actions.emplace_back(DropSplit{lease});
    leases.erase(lease);
    ready.erase(lease);
  }
  known.leases.clear();
}

// ---- steps

void GroupMember::State::Advance() {
  while (Going() && !computing) {
    Save();
    while (!rounds.empty() && rounds.front().round.end() <= held.header().step) {
      Forget(rounds.front());
      rounds.pop_front();
      Prepare();
      if (rounds.size() < kRoundsAhead) heartbeat_urgent = true;
    }
    if (rounds.empty() || (work && work->reducing)) return;
    if (!work) Start();
    ComputeNext();
    return;
  }
}

void GroupMember::State::Start() {
  const Known& known = rounds.front();
  const uint64_t k = held.header().step - known.round.first_step;
  const auto width = static_cast<uint32_t>(known.round.lanes.size());
  work = Work();
  work->lanes.resize(width);
  for (uint32_t lane = 0; lane < width; ++lane) {
    // All members hold the same ledger, so all leave the same lanes out.
    const Ledger::Entry entry = held.ledger().Lookup(known.round.lanes[lane].cut, known.runs[lane][k]);
    if (entry == Ledger::Entry::kConflict) return Fail("a round that contradicts the ledger");
    work->lanes[lane].kind =
        entry == Ledger::Entry::kDuplicate ? LaneOutcome::Kind::kHeld : LaneOutcome::Kind::kEmpty;
  }
  std::tie(work->first_lane, work->end_lane) =
      LanesOf(rank, static_cast<uint32_t>(group->members.size()), width);
  work->lane = work->first_lane;
}

// The next batch of the step, or its reduction when there is none.
void GroupMember::State::ComputeNext() {
  if (!work) return;
  const Known& known = rounds.front();
  const uint64_t step = held.header().step;
  const uint64_t k = step - known.round.first_step;
  while (work->lane < work->end_lane && work->lanes[work->lane].kind == LaneOutcome::Kind::kHeld)
    ++work->lane;
  if (work->lane == work->end_lane) {
    work->reducing = true;
    work->token = ++last_token;
    actions.emplace_back(
        ReduceStep{work->token, group->id, step, work->lanes, work->first_lane, work->end_lane});
    return;
  }
  const uint64_t lease = known.leases.at(work->lane);
  if (!ready.at(lease)) return;
  const Cut& cut = known.round.lanes[work->lane].cut;
  const uint32_t run = known.runs[work->lane][k];
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
  const Known& known = rounds.front();
  const uint64_t k = held.header().step - known.round.first_step;
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
    held.ledger().Record(known.round.lanes[lane].cut, known.runs[lane][k]);
  }
  if (bad) {
    ++skipped;
    ++consecutive_rejected;
    const auto members = static_cast<uint32_t>(group->members.size());
    const auto width = static_cast<uint32_t>(step.lanes.size());
    const auto by = static_cast<uint32_t>(uint64_t{*bad} * members / width);
    rejected = RejectedRun{group->members[by].node, known.round.lanes[*bad].cut, known.runs[*bad][k]};
    heartbeat_urgent = true;
    events = 0;
  } else {
    consecutive_rejected = 0;
    if (events > 0) held.Apply(events, step.terms);
  }
  held.Complete(events);
  work.reset();
}

// What the checkpoint wants of this member, once it is at the step that it is of.
void GroupMember::State::Save() {
  if (!checkpoint || saving || checkpoint->version > held.header().step) return;
  const CheckpointOrder order = *std::exchange(checkpoint, std::nullopt);
  last_checkpoint = order.id;
  shard.reset();
  saved.clear();
  if (order.version < held.header().step) {
    ShardReport report;
    report.checkpoint = order.id;
    report.status =
        Status(Code::kFailedPrecondition, "a checkpoint of step " + std::to_string(order.version) +
                                              " was ordered at step " + std::to_string(held.header().step));
    shard = std::move(report);
    heartbeat_urgent = true;
    return;
  }
  SaveShard save{order, {}};
  const auto places =
      Place(config.table, Placement::kPartitioned, static_cast<uint32_t>(group->members.size()));
  for (uint32_t i = 0; i < places.size(); ++i) {
    if (places[i] != rank) continue;
    const Incarnation incarnation(group->id);
    save.slices.push_back(held.Copy(SliceId(i), incarnation));
    saved.push_back({SliceId(i), incarnation});
  }
  saving = order.id;
  if (!save.slices.empty()) {
    actions.emplace_back(std::move(save));
    return;
  }
  // More members than slices: nothing to save.
  saving.reset();
  ShardReport report;
  report.checkpoint = order.id;
  shard = std::move(report);
  heartbeat_urgent = true;
}

// ---- the public face

GroupMember::GroupMember(GroupMemberConfig config) : state_(std::make_unique<State>(std::move(config))) {}

GroupMember::~GroupMember() = default;

void GroupMember::OnJoined(NodeId node) {
  state_->node = node;
}

WorkerHeartbeat GroupMember::MakeHeartbeat() {
  State& s = *state_;
  WorkerHeartbeat heartbeat;
  heartbeat.node = s.node;
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
  report.rounds_until = s.rounds.empty() ? report.step : s.rounds.back().round.end();
  report.failure = s.failure;
  report.shard = s.shard;
  report.consecutive_rejected = s.consecutive_rejected;
  report.rejected = s.rejected;
  report.skipped = s.skipped;
  heartbeat.member_report = std::move(report);
  s.heartbeat_urgent = false;
  return heartbeat;
}

bool GroupMember::HeartbeatUrgent() const {
  // The step that everybody is at is what the next ones wait for, when there is nothing to do.
  return state_->heartbeat_urgent || (state_->Going() && state_->rounds.empty());
}

GroupMemberActions GroupMember::OnHeartbeatReply(const WorkerHeartbeatReply& reply) {
  State& s = *state_;
  if (s.stopped) return {};
  if (reply.view) s.view = reply.view;
  if (reply.evicted || reply.stop) {
    s.Quit();
    s.group.reset();
    s.holds = s.holds && !reply.evicted;
    s.stopped = true;
    s.actions.emplace_back(StopRole{reply.evicted});
    return s.Take();
  }
  if (!reply.start.empty()) s.start = reply.start;
  const uint64_t before = s.group ? s.group->id : 0;
  if (reply.group) s.TakeGroup(*reply.group);
  const bool same = s.group && s.group->id == before;
  if (same) s.TakeRounds(reply.rounds);
  if (same && reply.checkpoint && reply.checkpoint->id > s.last_checkpoint) s.checkpoint = reply.checkpoint;
  s.Advance();
  return s.Take();
}

void GroupMember::Leave() {
  state_->leaving = state_->heartbeat_urgent = true;
}

GroupMemberActions GroupMember::OnSplitReady(uint64_t lease) {
  State& s = *state_;
  if (auto at = s.ready.find(lease); at != s.ready.end()) at->second = true;
  s.Advance();
  return s.Take();
}

GroupMemberActions GroupMember::OnSplitFailed(uint64_t lease) {
  State& s = *state_;
  const auto at = s.leases.find(lease);
  if (at == s.leases.end()) return {};
  s.actions.emplace_back(DropSplit{lease});
  s.actions.emplace_back(PrepareSplit{at->second});
  return s.Take();
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
    const uint64_t k = s.held.header().step - known.round.first_step;
    if (++work.batch == known.round.lanes[work.lane].cut.BatchesOf(known.runs[work.lane][k])) {
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

GroupMemberActions GroupMember::OnStateReceived(uint64_t group, Result<Shared> state) {
  State& s = *state_;
  if (!s.group || !guards::SameGroup(group, s.group->id) || !s.sharing || s.filled) return {};
  s.sharing = false;
  if (!state.ok()) {
    s.Fail(state.status().ToString());
  } else if (s.group->holder == s.node) {
    s.OnStateReady();
  } else {
    // What is held now is let go of only here, for what is there whole.
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
  // What others say of lanes can only be what a lane can be, and of mine what I have said.
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

void GroupMember::OnShardSaved(ShardReport report) {
  State& s = *state_;
  if (!s.saving || *s.saving != report.checkpoint) return;
  s.saving.reset();
  report.slices = s.saved;
  s.shard = std::move(report);
  s.heartbeat_urgent = true;
}

const View& GroupMember::view() const {
  return *state_->view;
}

bool GroupMember::holds() const {
  return state_->holds;
}

const TrainingState& GroupMember::state() const {
  return state_->held;
}

}  // namespace leat::protocol
