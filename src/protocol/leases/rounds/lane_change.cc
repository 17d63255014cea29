#include "protocol/leases/rounds/lane_change.h"

#include <algorithm>

namespace leat::protocol {

namespace {

// For workers to give rounds back, and for servers to report.
constexpr Duration kLaneChangeWait = std::chrono::seconds(2);

}  // namespace

void LaneChange::Advance(Time now, bool may_take_back) {
  const bool late = change_ && now - change_->since >= kLaneChangeWait;
  if (change_ && (!may_take_back || late || !rounds_.taken_back_from())) Abandon(now);
  if (change_) return AdvanceUnderWay(now);
  if (auto set = rounds_.FollowWorkers(now, may_take_back)) outbox_.Journal(*set);
  if (!rounds_.taken_back_from()) return;
  outbox_.ChangeView();
  change_ = UnderWay{.since = now, .told = outbox_.RefreshView()->generation, .without = {}, .reported = {}};
}

void LaneChange::AdvanceUnderWay(Time now) {
  if (!change_->without) {
    if (!WorkersTold()) return;
    change_->without = outbox_.RefreshView()->generation;
  }
  if (!change_->reported) {
    if (!ServersKnow()) return;
    change_->reported = roster_.heartbeats();
  }
  if (!AllReportedSince(*change_->reported, roster_.heartbeats())) return;
  const uint64_t ahead = roster_.settings().strategy.ahead();
  if (HighestVersion() + ahead >= *rounds_.taken_back_from()) return Abandon(now);  // a step has begun
  change_.reset();
  outbox_.Journal(rounds_.Remake(now));
}

bool LaneChange::WorkersTold() const {
  return std::ranges::all_of(roster_.members(), [&](const auto& entry) {
    const MemberState& member = entry.second;
    const bool trains = member.Is(Role::kWorker) && member.ready && !member.stands_by();
    return !trains || member.generation >= change_->told;
  });
}

bool LaneChange::ServersKnow() const {
  return std::ranges::all_of(roster_.members(), [&](const auto& entry) {
    return !entry.second.Is(Role::kServer) || entry.second.generation >= *change_->without;
  });
}

uint64_t LaneChange::HighestVersion() const {
  uint64_t highest = slices_.HighestVersion();
  for (const auto& [server, version] : versions_) highest = std::max(highest, version);
  return highest;
}

void LaneChange::Abandon(Time now) {
  change_.reset();
  rounds_.AbandonTakeBack(now);
}

}  // namespace leat::protocol
