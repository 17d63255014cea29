#include "protocol/allreduce/member/member_rounds.h"

#include <algorithm>
#include <utility>

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

}  // namespace leat::protocol
