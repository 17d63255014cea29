// Rounds and steps of a member.
#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "protocol/allreduce/group_member_state.h"

namespace leat::protocol {

namespace {

// The maximum number of lanes in a round; limits what a peer can request.
constexpr size_t kMaxLanes = 1 << 16;
// Rounds are requested one ahead of the current one, so that its splits are ready.
constexpr size_t kRoundsAhead = 2;

bool WellFormed(const Round& round, size_t partitions, bool late_labels) {
  if (round.lanes.empty() || round.lanes.size() > kMaxLanes || !ValidRate(round.rate)) return false;
  const uint32_t runs = round.lanes.front().assigned.count();
  return runs > 0 && std::ranges::all_of(round.lanes, [&](const Round::Lane& part) {
           return part.cut.valid() && part.cut.partition < partitions &&
                  part.assigned.size() == part.cut.runs() && part.assigned.count() == runs &&
                  part.labels.has_value() == late_labels;
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

std::pair<uint32_t, uint32_t> LanesOf(uint32_t rank, uint32_t members, uint32_t width) {
  // Lane v belongs to rank ⌊v · members / width⌋.
  const auto from = [&](uint64_t r) { return static_cast<uint32_t>((r * width + members - 1) / members); };
  return {from(rank), from(uint64_t{rank} + 1)};
}

// ---- rounds

void GroupMember::State::TakeRounds(const std::vector<Round>& newer) {
  if (!Going()) return;
  for (const Round& round : newer) {
    if (!WellFormed(round, start.size(), config.late_labels)) return Fail("a round that is none");
    const uint64_t next = rounds.empty() ? held.header().step : rounds.back().round.end();
    // Repeated by a delayed reply.
    if (round.end() <= next) continue;
    if (round.first_step > next || (!rounds.empty() && round.first_step != next)) {
      return Fail("a round from step " + std::to_string(round.first_step) + " on where " +
                  std::to_string(next) + " is next");
    }
    Known known{round, {}, {}};
    for (const Round::Lane& part : round.lanes) known.runs.push_back(RunsIn(part.assigned));
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
                  .assigned = part.assigned,
                  .rate = known.round.rate,
                  .labels = part.labels};
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
    // All members have the same ledger, so all omit the same lanes.
    const Ledger::Entry entry = held.ledger().Lookup(known.round.lanes[lane].cut, known.runs[lane][k]);
    if (entry == Ledger::Entry::kConflict) return Fail("a round that contradicts the ledger");
    work->lanes[lane].kind =
        entry == Ledger::Entry::kDuplicate ? LaneOutcome::Kind::kHeld : LaneOutcome::Kind::kEmpty;
  }
  std::tie(work->first_lane, work->end_lane) =
      LanesOf(rank, static_cast<uint32_t>(group->members.size()), width);
  work->lane = work->first_lane;
}

// Computes the next batch of the step, or starts its reduction if there is none.
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
    if (events > 0) held.Apply(events, step.terms, known.round.rate, step.moments);
  }
  held.Complete(events);
  work.reset();
}

}  // namespace leat::protocol
