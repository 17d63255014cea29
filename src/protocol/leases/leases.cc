#include "protocol/leases/leases.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <stdexcept>
#include <utility>

namespace leat::protocol {

namespace {

// For workers to give rounds back, and for servers to report.
constexpr Duration kLaneChangeWait = std::chrono::seconds(2);

// The limit of leases per request.
constexpr uint32_t kMaxLeases = 64;
// The limit of cuts made ahead.
constexpr size_t kMaxAhead = 1024;

LeaseLimits LimitsOf(const LeaseSettings& settings, const MemberSettings& job) {
  LeaseLimits limits = settings.leases;
  limits.heartbeat_interval = job.heartbeat_interval;
  return limits;
}

}  // namespace

void LaneChange::Advance(Time now, bool may_take_back) {
  const bool late = change_ && now - change_->since >= kLaneChangeWait;
  if (change_ && (!may_take_back || late || !rounds_.suspended_from(Suspension::kLaneChange))) Abandon(now);
  if (change_) return AdvanceUnderWay(now);
  if (auto set = rounds_.FollowWorkers(now, may_take_back)) outbox_.Journal(*set);
  if (!rounds_.suspended_from(Suspension::kLaneChange)) return;
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
  if (HighestVersion() + ahead >= *rounds_.suspended_from(Suspension::kLaneChange))
    return Abandon(now);  // a step has begun
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
  rounds_.Resume(now, Suspension::kLaneChange);
}

Leases::Leases(const LeaseSettings& settings, Roster* roster, SliceMap* slices, Outbox* outbox)
    : settings_(settings),
      limits_(LimitsOf(settings, roster->settings())),
      roster_(*roster),
      slices_(*slices),
      outbox_(*outbox),
      cursors_(settings.cuts, settings.partitions.size(), settings.tail_wait, settings.late_labels),
      splits_(&cursors_, limits_),
      rounds_(&cursors_, roster->settings().strategy, settings.open_steps, settings.lane_wait,
              settings.tail_wait, limits_),
      lane_change_(&rounds_, slices, roster, outbox) {
  for (size_t p = 0; p < settings.partitions.size(); ++p) {
    if (settings.partitions[p] != p) throw std::invalid_argument("partitions are not 0, 1, … in order");
  }
  if (settings.partitions.empty()) throw std::invalid_argument("the stream has no partitions");
  if (settings.late_labels && settings.cuts.epochs > 1) {
    throw std::invalid_argument("late labels allow one pass over the stream, not " +
                                std::to_string(settings.cuts.epochs));
  }
  if (settings.pause_at > 0) cursors_.PauseAt(settings.pause_at);
  splits_.SetPartitionPlaces(settings.partition_places);
}

// ---- the stream

void Leases::Start(const std::vector<Position>& first) {
  outbox_.Journal(StreamStart{first});
  cursors_.Start(first);
  slices_.SetStart(first);
}

void Leases::JournalPasses() {
  if (auto planned = cursors_.PlanPasses()) outbox_.Journal(std::move(*planned));
}

Status Leases::OnRange(Time now, const StreamRange& range) {
  auto marks = cursors_.AddMarks(range.partition, range.marks);
  if (marks.ok() && !marks->empty()) outbox_.Journal(LabelsMarked{range.partition, std::move(*marks)});
  cursors_.OnRange(now, range);
  return marks.ok() ? Status() : marks.status();
}

void Leases::RaiseRate() {
  if (!settings_.raise || !cursors_.started()) return;
  RateRaised span = cursors_.NextSpan(*settings_.raise);
  if (cursors_.rates().Add(span)) outbox_.Journal(std::move(span));
}

// ---- from a former coordinator

void Leases::Restore(RestoredWork work) {
  if (stepped()) {
    rounds_.Restore(slices_.Watermarks(), slices_.Version(), std::move(work.cuts), work.rounds);
  } else {
    splits_.Restore(slices_.Watermarks(), std::move(work.cuts));
  }
}

void Leases::TakeOver(bool slices_go_back, bool workers) {
  if (slices_go_back) {
    RollBack();
  } else {
    rounds_.KeepRestoredRounds();
    if (workers) queue().Await();
  }
  if (!roster_.settings().all_reduce()) ShareLanes();
}

void Leases::Adopt(Time now, NodeId worker, const std::vector<LeaseClaim>& claims) {
  for (const LeaseClaim& claim : claims) {
    if (claim.lease < first_id_) queue().Adopt(now, worker, claim);
  }
}

// ---- heartbeats

void Leases::OnHeartbeat(Time now, const WorkerHeartbeat& heartbeat) {
  queue().OnHeartbeat(now, heartbeat.node, heartbeat.waiting);
  for (const uint64_t lease : heartbeat.released)
    queue().Release(now, lease, heartbeat.node, roster_.heartbeats());
}

std::vector<Cut> Leases::Grant(Time now, const WorkerHeartbeat& heartbeat, const LeasesAllowed& allowed,
                               WorkerHeartbeatReply* reply) {
  const NodeId worker = heartbeat.node;
  if (allowed.ending && !allowed.repairs) {
    reply->revoked = heartbeat.held;
    return {};
  }
  // The leases of a worker that is isolated are others' until it can push again.
  if (!roster_.At(worker).trains()) return {};
  if (stepped()) {
    if (heartbeat.leases_wanted == 0 && heartbeat.held.empty()) return {};
    return GrantLanes(now, worker, allowed.may_take_back, &reply->leases);
  }
  if (allowed.repairs) {
    LeaseRepairs(now, worker, heartbeat.leases_wanted, &reply->leases);
    return {};
  }
  if (allowed.paused) return {};
  return GrantSplits(now, worker, heartbeat.leases_wanted, &reply->leases);
}

std::vector<Cut> Leases::GrantSplits(Time now, NodeId worker, uint32_t wanted, std::vector<Lease>* leases) {
  std::vector<Cut> cuts;
  if (!slices_.ready()) return cuts;
  if (!settings_.partition_places.empty()) splits_.SetWorkerPlace(worker, roster_.At(worker).place);
  wanted = std::min(wanted, kMaxLeases);
  while (leases->size() < wanted) {
    const size_t demand = wanted - leases->size();
    const size_t ahead = std::min(demand + 2 * splits_.leased(), kMaxAhead);
    CutsMade made;
    if (splits_.FreeFor(worker) == 0) {
      const size_t own = splits_.free();  // splits that are overdue at this worker, so it cannot have them
      made.cuts = splits_.CutMore(now, demand + own, ahead + own);
      if (made.cuts.empty()) return cuts;
    } else if (!splits_.HasOwn(worker)) {
      made.cuts = splits_.CutAhead(now, ahead);
    }
    cuts.insert(cuts.end(), made.cuts.begin(), made.cuts.end());
    if (!made.cuts.empty()) outbox_.Journal(std::move(made));
    if (auto lease = splits_.Grant(now, outbox_.NextId(), worker, slices_))
      leases->push_back(std::move(*lease));
  }
  return cuts;
}

void Leases::LeaseRepairs(Time now, NodeId worker, uint32_t wanted, std::vector<Lease>* leases) {
  if (!slices_.ready()) return;
  while (leases->size() < std::min(wanted, kMaxLeases)) {
    auto lease = splits_.LeaseRepair(now, outbox_.NextId(), worker, slices_);
    if (!lease) return;
    leases->push_back(std::move(*lease));
  }
}

std::vector<Cut> Leases::GrantLanes(Time now, NodeId worker, bool may_take_back, std::vector<Lease>* leases) {
  if (!slices_.ready()) return {};
  std::vector<Cut> cuts = MakeRounds(now, may_take_back);
  while (auto lease = rounds_.Grant(now, worker, slices_, [this] { return outbox_.NextId(); }))
    leases->push_back(std::move(*lease));
  return cuts;
}

void Leases::Remove(Time now, NodeId node) {
  queue().Reclaim(now, node);
  lane_change_.Forget(node);
}

// ---- lanes

void Leases::ShareLanes() {
  if (!stepped()) return;
  std::map<uint32_t, NodeId> workers;  // by index
  for (const auto& [node, member] : roster_.members()) {
    if (member.ready && member.trains()) workers[member.member.index] = node;
  }
  const auto by_rank = std::views::values(workers);
  rounds_.shares().SetWorkers({by_rank.begin(), by_rank.end()});
}

// All-reduce: members know the rounds that they were told, and train them to their end.
std::vector<Cut> Leases::MakeRounds(Time now, bool may_take_back) {
  outbox_.RefreshView();
  lane_change_.Advance(now, may_take_back && !roster_.settings().all_reduce() && slices_.ready());
  std::vector<Cut> cuts;
  while (auto made = rounds_.Make(now)) {
    for (const RoundMade::Lane& lane : made->lanes) cuts.push_back(lane.cut);
    outbox_.Journal(std::move(*made));
  }
  return cuts;
}

void Leases::DropBefore(const std::vector<Position>& watermark, uint64_t step) {
  stepped() ? rounds_.DropBefore(watermark, step) : splits_.DropBefore(watermark);
}

LeaseRows Leases::rows() const {
  LeaseRows rows;
  rows.lag = cursors_.Lag(slices_.Watermarks());
  for (uint32_t p = 0; p < cursors_.size(); ++p) {
    rows.ends.push_back(cursors_[p].end);
    rows.rate = std::max(rows.rate, cursors_.rates().At(p, cursors_[p].at));
  }
  rows.leases = queue().leased();
  rows.regranted_leases = queue().regranted();
  rows.overdue_leases = queue().overdue();
  const RoundSequence& rounds = rounds_.sequence();
  if (stepped()) rows.lanes = rounds.lanes();
  rows.rounds = rounds.made();
  rows.late = rounds.late();
  if (settings_.late_labels) rows.unlabelled = cursors_.Unlabelled();
  return rows;
}

}  // namespace leat::protocol
