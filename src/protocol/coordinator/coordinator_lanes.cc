// The lanes of stepped strategies: who takes them, and how many there are.
#include <algorithm>
#include <map>
#include <utility>

#include "protocol/coordinator/coordinator_state.h"

namespace leat::protocol {
namespace {

// For workers to give rounds back, and for servers to report.
constexpr Duration kLaneChangeWait = std::chrono::seconds(2);

}  // namespace

// Among the workers that can take them.
void Coordinator::State::ShareLanes() {
  if (!Stepped()) return;
  std::map<uint32_t, NodeId> workers;  // by index
  for (const auto& [node, its] : members) {
    const bool takes = its.ready && !its.isolated && its.member.state == Member::State::kActive;
    if (its.member.role == Role::kWorker && takes) workers[its.member.index] = node;
  }
  rounds.SetWorkers(workers);
}

void Coordinator::State::MakeRounds(Time now) {
  RefreshView();
  FollowWorkers(now);
  while (auto made = rounds.Make(now)) JournalCuts(std::move(*made));
}

// All-reduce: members know the rounds that they were told, and train them to their end.
void Coordinator::State::FollowWorkers(Time now) {
  const bool may_take_back = !AllReduce() && !pending && ending == Ending::kNone && slices.ready();
  const bool late = lane_change && now - lane_change->since >= kLaneChangeWait;
  if (lane_change && (!may_take_back || late || !rounds.taken_back_from())) AbandonLaneChange(now);
  if (lane_change) return StepLaneChange(now);
  if (auto set = rounds.FollowWorkers(now, may_take_back)) journals.push_back({*set});
  if (!rounds.taken_back_from()) return;
  view_changed = true;
  RefreshView();
  lane_change = LaneChange{.since = now, .told = view->generation, .without = {}, .reported = {}};
}

// Rounds are made anew with other lanes while slices stay as they are. Nothing of the old ones may arrive
// afterwards: a step could then have one run on one server, and another one on the next.
//   1. Each worker has been told, and holds nothing of them. A worker that is gone may not know it.
//   2. Each server has a view without those that are gone, and ignores what they push (guards::IsMember).
//   3. Each server has reported since, and no slice was at a step at which it could have taken such a push.
void Coordinator::State::StepLaneChange(Time now) {
  LaneChange& change = *lane_change;
  if (!change.without) {
    const bool told = std::ranges::all_of(members, [&](const auto& entry) {
      const MemberState& its = entry.second;
      const bool stands_by = its.member.state == Member::State::kStandby;
      const bool trains = its.member.role == Role::kWorker && its.ready && !stands_by;
      return !trains || its.generation >= change.told;
    });
    if (!told) return;
    RefreshView();
    change.without = view->generation;
  }
  if (!change.reported) {
    const bool known = std::ranges::all_of(members, [&](const auto& entry) {
      return entry.second.member.role != Role::kServer || entry.second.generation >= *change.without;
    });
    if (!known) return;
    change.reported = heartbeat_counts;
  }
  if (!AllReportedSince(*change.reported, heartbeat_counts)) return;
  const bool begun = HighestVersion() + config.strategy.ahead() >= *rounds.taken_back_from();
  if (begun) return AbandonLaneChange(now);
  lane_change.reset();
  journals.push_back({rounds.Remake(now)});
}

void Coordinator::State::AbandonLaneChange(Time now) {
  lane_change.reset();
  rounds.AbandonTakeBack(now);
}

}  // namespace leat::protocol
