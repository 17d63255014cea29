#include "protocol/slices/slice_map.h"

#include <stdexcept>

#include "protocol/guards.h"
#include "protocol/placement.h"

namespace leat::protocol {

namespace {

// Adds a report to what is known; null: nothing is known.
SharedReport SumOfReports(const LedgerReport* known, const LedgerReport& report, size_t partitions) {
  auto sum = known ? std::make_shared<LedgerReport>(*known) : std::make_shared<LedgerReport>();
  sum->partitions.resize(partitions);
  for (size_t p = 0; p < report.partitions.size(); ++p) {
    Add(report.partitions[p], &sum->partitions[report.first_partition + p]);
  }
  if (!report.more) {
    sum->events = std::max(sum->events, report.events);
    sum->version = std::max(sum->version, report.version);
  }
  return sum;
}

// All-reduce: a ledger only grows within an incarnation, so a shorter one is in an older report that was
// delayed.
bool Overtaken(const LedgerReport& report, const LedgerReport& last) {
  if (report.version < last.version) return true;
  for (size_t p = 0; p < report.partitions.size(); ++p) {
    if (report.partitions[p].done < last.partitions[p].done) return true;
  }
  return false;
}

// Bytes of the slices on each of these servers.
using ServerBytes = std::map<NodeId, uint64_t>;

ServerBytes BytesOn(const std::vector<NodeId>& servers, const std::vector<PlacedSlice>& slices) {
  ServerBytes bytes;
  for (const NodeId server : servers) bytes[server] = 0;
  for (const PlacedSlice& slice : slices) {
    if (const auto at = bytes.find(slice.server); at != bytes.end()) at->second += slice.bytes;
  }
  return bytes;
}

ServerBytes::iterator WithLeast(ServerBytes& bytes) {
  return std::ranges::min_element(bytes, {}, [](const auto& entry) { return entry.second; });
}

// The slices that are `here` on the server, grouped by the `other` server of each.
std::vector<ReplicaGroup> GroupsOf(const std::vector<PlacedSlice>& slices, NodeId server,
                                   NodeId PlacedSlice::*here, NodeId PlacedSlice::*other) {
  std::vector<ReplicaGroup> groups;
  for (const PlacedSlice& slice : slices) {
    if (slice.*here != server || slice.epoch == 0) continue;
    auto at = std::ranges::find_if(groups, [&](const ReplicaGroup& group) {
      return group.epoch == slice.epoch && group.server == slice.*other;
    });
    if (at == groups.end()) at = groups.insert(at, {.epoch = slice.epoch, .server = slice.*other});
    at->slices.push_back({slice.order.slice, slice.order.incarnation});
  }
  return groups;
}

}  // namespace

// ---- reports and progress

bool SliceReports::Add(NodeId server, uint64_t number, const LedgerReport& report, size_t partitions,
                       std::vector<MergedReport>* memo) {
  auto part = parts_.find(server);
  if (part != parts_.end() && part->second.report != number) {
    // Heartbeats may overtake each other.
    if (number < part->second.report) return false;
    parts_.erase(part);
    part = parts_.end();
  }
  const bool first = part == parts_.end();
  const SharedReport base = first ? sum_ : part->second.sum;
  // Another server has reported the slice meanwhile.
  const SharedReport delta = first || report.more || part->second.before == sum_ ? nullptr : sum_;
  auto at = std::ranges::find_if(
      *memo, [&](const MergedReport& same) { return same.base == base && same.delta == delta; });
  if (at == memo->end()) {
    SharedReport merged = SumOfReports(base.get(), report, partitions);
    if (delta) merged = SumOfReports(delta.get(), *merged, partitions);
    const auto same =
        std::ranges::find_if(*memo, [&](const MergedReport& one) { return *one.merged == *merged; });
    if (same != memo->end()) merged = same->merged;
    at = memo->insert(memo->end(), {base, delta, std::move(merged)});
  }
  if (report.more) {
    parts_[server] = {number, first ? sum_ : part->second.before, at->merged};
  } else {
    sum_ = at->merged;
    parts_.erase(server);
  }
  return true;
}

bool SliceProgress::Base::IsAheadOf(const LedgerReport& report) const {
  for (size_t p = 0; p < watermark.size(); ++p) {
    if (report.partitions[p].done < watermark[p]) return true;
  }
  return report.version < step;
}

void SliceProgress::Derive(std::vector<SharedReport> reports) {
  reports_ = std::move(reports);
  std::sort(reports_.begin(), reports_.end());
  reports_.erase(std::unique(reports_.begin(), reports_.end()), reports_.end());

  const std::vector<Position>& base = base_.watermark;
  const bool all = ready() && !reports_.empty();
  watermark_ = all ? std::vector<Position>(base.size(), Position{~0u, ~uint64_t{0}}) : base;
  version_ = all ? ~uint64_t{0} : base_.step;
  highest_ = base_.step;
  for (const auto& report : reports_) {
    version_ = std::min(version_, report->version);
    highest_ = std::max(highest_, report->version);
    for (size_t p = 0; p < watermark_.size(); ++p) {
      watermark_[p] = std::min(watermark_[p], report->partitions[p].done);
    }
  }
}

uint64_t SliceProgress::Events() const {
  uint64_t least = ready() ? ~uint64_t{0} : base_.events;
  for (const auto& report : reports_) least = std::min(least, report->events);
  return least;
}

RunSet SliceProgress::Missing(const Cut& cut) const {
  const uint32_t batches = cut.runs();
  if (!ready()) return RunSet(batches, true);
  if (cut.next() <= watermark_[cut.partition]) return RunSet(batches);
  RunSet held(batches, true);
  for (const auto& report : reports_) held &= HeldRuns(report->partitions, cut);
  return held.Complement();
}

bool SliceProgress::Complete(const Cut& cut) const {
  if (!ready()) return false;
  if (cut.next() <= watermark_[cut.partition]) return true;
  return std::ranges::all_of(
      reports_, [&](const SharedReport& report) { return HeldRuns(report->partitions, cut).full(); });
}

RunSet SliceProgress::RunsSomeSlicesLack(const Cut& cut) const {
  RunSet lacking = Missing(cut);
  if (lacking.empty()) return lacking;
  RunSet any(cut.runs());
  for (const auto& report : reports_) any |= HeldRuns(report->partitions, cut);
  lacking &= any;
  return lacking;
}

// ---- the map

SliceMap::SliceMap(const SliceTable& table, size_t partitions, NextIncarnation next_incarnation)
    : SliceProgress(table.slices.size(), partitions),
      next_incarnation_(std::move(next_incarnation)),
      table_(&table),
      states_(table.slices.size()),
      source_(table.slices.size()) {
  for (size_t i = 0; i < states_.size(); ++i) {
    states_[i].bytes = table.slices[i].elements() * sizeof(float);
    source_[i].slice = SliceId(static_cast<uint32_t>(i));
  }
}

void SliceMap::SetSource(const Manifest& manifest) {
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& slice_incarnation : shard.slices) {
      source_[slice_incarnation.slice.value] = {
          slice_incarnation.slice, {}, manifest.directory, shard.file, shard.checksum};
    }
  }
  for (PlacedSlice& slice : states_) slice.ForgetFailures();
  base_ = {manifest.watermark, manifest.events, manifest.step};
  Derive();
}

void SliceMap::Give(PlacedSlice& slice, NodeId server) {
  Forget(slice);
  slice.server = server;
  slice.former = NodeId();
  slice.incarnation = next_incarnation_();
  slice.placed = true;
  Order(slice, 0);
}

void SliceMap::Order(PlacedSlice& slice, uint64_t move) {
  const SliceOrder& source = source_[static_cast<size_t>(&slice - states_.data())];
  slice.order = source;
  if (move != 0) slice.order = {.slice = source.slice, .move = move};
  slice.order.incarnation = slice.incarnation;
}

void SliceMap::Forget(PlacedSlice& slice) {
  if (slice.live) --live_;
  slice.live = slice.returning = slice.returned = false;
  slice.replica = NodeId();
  slice.epoch = 0;
  slice.reports.Clear();
}

void SliceMap::PlaceAll(const std::vector<NodeId>& servers, const std::vector<uint32_t>& assignment) {
  for (size_t i = 0; i < states_.size(); ++i) Give(states_[i], servers[assignment[i]]);
  placed_ = true;
  Derive();
}

void SliceMap::Promote(PlacedSlice& slice) {
  slice.server = std::exchange(slice.replica, NodeId());
  slice.ForgetFailures();
  slice.returned = false;
  slice.placed = true;
  Order(slice, std::exchange(slice.epoch, 0));
}

void SliceMap::Orphan(NodeId server) {
  for (PlacedSlice& slice : states_) {
    if (slice.replica == server) DropReplica(SliceId(static_cast<uint32_t>(&slice - states_.data())));
    if (slice.server != server) continue;
    if (slice.replica != NodeId()) {
      Promote(slice);
      // The replica goes live if its server has reported it. Otherwise it is still to come back.
      if (slice.returning && slice.reports.sum()) GoLive(&slice);
      continue;
    }
    Forget(slice);
    slice.server = NodeId();
    slice.former = server;
  }
  Derive();
}

void SliceMap::Adopt(NodeId former, const std::vector<NodeId>& servers) {
  ServerBytes bytes = BytesOn(servers, states_);
  std::vector<PlacedSlice*> orphans;
  for (PlacedSlice& slice : states_) {
    if (slice.server == NodeId() && slice.former == former) orphans.push_back(&slice);
  }
  std::ranges::stable_sort(orphans, std::greater(), &PlacedSlice::bytes);
  for (PlacedSlice* slice : orphans) {
    const auto least = WithLeast(bytes);
    least->second += slice->bytes;
    Give(*slice, least->first);
  }
  Derive();
}

template <class Wanted>
bool SliceMap::RestoreIf(const Wanted& wanted) {
  bool any = false;
  for (PlacedSlice& slice : states_) {
    if (slice.server == NodeId() || !wanted(slice)) continue;
    Give(slice, slice.server);
    any = true;
  }
  Derive();
  return any;
}

bool SliceMap::RestoreAgain(const std::vector<Incarnation>& incarnations) {
  return RestoreIf([&](const PlacedSlice& slice) {
    return slice.incarnation != incarnations[static_cast<size_t>(&slice - states_.data())];
  });
}

void SliceMap::RestoreAll() {
  RestoreIf([](const PlacedSlice&) { return true; });
}

void SliceMap::RestoreUnfinished() {
  RestoreIf([](const PlacedSlice& slice) { return !slice.live; });
}

void SliceMap::Regroup(const std::vector<NodeId>& workers, Incarnation slice_incarnation, bool survived) {
  const auto assignment =
      Place(*table_, Placement::kPartitioned, std::max<uint32_t>(1, static_cast<uint32_t>(workers.size())));
  for (size_t i = 0; i < states_.size(); ++i) {
    PlacedSlice& slice = states_[i];
    if (!survived) Forget(slice);
    slice.server = workers.empty() ? NodeId() : workers[assignment[i]];
    slice.incarnation = slice_incarnation;
    slice.order = source_[i];
    slice.order.incarnation = slice_incarnation;
  }
  placed_ = true;
  Derive();
}

void SliceMap::RestorePlaces(const std::vector<SliceAssignment>& places, const std::vector<NodeId>& servers) {
  for (const SliceAssignment& place : places) {
    if (place.slice.value >= states_.size())
      throw std::invalid_argument("the journal places slice " + ToString(place.slice) + " of " +
                                  std::to_string(states_.size()));
    PlacedSlice& slice = states_[place.slice.value];
    slice.returning = std::ranges::find(servers, place.server) != servers.end();
    slice.server = slice.returning ? place.server : NodeId();
    slice.former = slice.returning ? NodeId() : place.server;
    slice.incarnation = place.incarnation;
    slice.replica = NodeId();
    slice.epoch = 0;
    Order(slice, place.move);
    if (std::ranges::find(servers, place.replica) == servers.end()) continue;
    slice.replica = place.replica;
    slice.epoch = place.epoch;
    if (slice.returning) continue;
    // The former coordinator has journaled the loss of its server alone.
    slice.returning = true;
    slice.former = NodeId();
    Promote(slice);
  }
  const auto none = std::ranges::find(states_, Incarnation(), &PlacedSlice::incarnation);
  if (none != states_.end())
    throw std::invalid_argument("the journal does not place slice " + std::to_string(none - states_.begin()));
  placed_ = true;
}

std::vector<SliceAssignment> SliceMap::TakePlaced() {
  std::vector<SliceAssignment> places;
  for (PlacedSlice& slice : states_) {
    if (!std::exchange(slice.placed, false)) continue;
    places.push_back({SliceId(static_cast<uint32_t>(&slice - states_.data())), slice.server,
                      slice.incarnation, slice.order.move, slice.replica, slice.epoch});
  }
  return places;
}

void SliceMap::Move(SliceId id, NodeId server, uint64_t move) {
  PlacedSlice& slice = states_[id.value];
  if (slice.replica == server) return Promote(slice);
  slice.server = server;
  slice.ForgetFailures();
  slice.placed = true;
  Order(slice, move);
  if (slice.replica != NodeId()) slice.epoch = move;
}

void SliceMap::SetReplica(SliceId id, NodeId server, uint64_t move) {
  PlacedSlice& slice = states_[id.value];
  slice.replica = server;
  slice.epoch = move;
  slice.placed = true;
}

void SliceMap::DropReplica(SliceId id) {
  PlacedSlice& slice = states_[id.value];
  if (slice.replica == NodeId()) return;
  slice.replica = NodeId();
  slice.epoch = 0;
  slice.placed = true;
  // Nobody's report is waited for any more. Its server may have made its own before it knew of the loss.
  if (slice.returning && slice.returned && slice.reports.sum()) GoLive(&slice);
}

std::vector<ReplicaGroup> SliceMap::ReplicatedOn(NodeId server) const {
  return GroupsOf(states_, server, &PlacedSlice::server, &PlacedSlice::replica);
}

std::vector<ReplicaGroup> SliceMap::ReplicasOn(NodeId server) const {
  return GroupsOf(states_, server, &PlacedSlice::replica, &PlacedSlice::server);
}

std::vector<NodeId> SliceMap::Orphaned() const {
  std::set<NodeId> former;
  for (const PlacedSlice& slice : states_) {
    if (placed_ && slice.server == NodeId()) former.insert(slice.former);
  }
  return {former.begin(), former.end()};
}

std::vector<SliceOrder> SliceMap::OrdersFor(NodeId server) const {
  std::vector<SliceOrder> orders;
  for (const PlacedSlice& slice : states_) {
    if (slice.server == server) orders.push_back(slice.order);
  }
  return orders;
}

std::vector<SliceLocation> SliceMap::Locations() const {
  std::vector<SliceLocation> locations;
  if (!placed_) return locations;
  locations.reserve(states_.size());
  for (const PlacedSlice& slice : states_) locations.push_back({slice.server, slice.incarnation, slice.live});
  return locations;
}

std::vector<Incarnation> SliceMap::Incarnations() const {
  std::vector<Incarnation> incarnations;
  incarnations.reserve(states_.size());
  for (const PlacedSlice& slice : states_) incarnations.push_back(slice.incarnation);
  return incarnations;
}

Status SliceMap::CheckFirstSteps(const ServerHeartbeat& heartbeat) const {
  for (const LedgerReport& report : heartbeat.ledgers) {
    if (report.more || report.version == base_.step) continue;
    for (const SliceIncarnation& slice_incarnation : report.slices) {
      if (slice_incarnation.slice.value >= states_.size()) continue;
      const PlacedSlice& slice = states_[slice_incarnation.slice.value];
      if (slice.live || slice.returning || slice.server != heartbeat.node ||
          slice.incarnation != slice_incarnation.incarnation)
        continue;
      return Status(Code::kInvalidArgument, "slice " + ToString(slice_incarnation.slice) +
                                                " is restored from step " + std::to_string(base_.step) +
                                                ", ps node " + ToString(heartbeat.node) + " reports step " +
                                                std::to_string(report.version));
    }
  }
  return Status();
}

PlacedSlice* SliceMap::Find(const SliceIncarnation& slice_incarnation) {
  if (slice_incarnation.slice.value >= states_.size()) return nullptr;
  PlacedSlice& slice = states_[slice_incarnation.slice.value];
  return guards::SameIncarnation(slice_incarnation.incarnation, slice.incarnation) ? &slice : nullptr;
}

// Returns true if a slice became live.
bool SliceMap::Add(NodeId server, uint64_t number, const LedgerReport& report) {
  const size_t partitions = base_.watermark.size();
  if (report.first_partition > partitions || report.partitions.size() > partitions - report.first_partition)
    return false;
  bool changed = false;
  std::vector<MergedReport> memo;
  for (const SliceIncarnation& slice_incarnation : report.slices) {
    PlacedSlice* slice = Find(slice_incarnation);
    // Ignore reports about an unassigned slice: it will be restored from older state.
    if (!slice || slice->server == NodeId()) continue;
    if (!slice->reports.Add(server, number, report, partitions, &memo)) continue;
    const bool by_replica = slice->replica == server && slice->returned;
    if (slice->server != server && !by_replica) continue;
    slice->ForgetFailures();
    if (report.more || slice->live) continue;
    // The replica's server says what it has.
    if (slice->returning && slice->replica != NodeId() && !by_replica) continue;
    changed = GoLive(slice) || changed;
  }
  return changed;
}

bool SliceMap::GoLive(PlacedSlice* slice) {
  if (std::exchange(slice->returning, false) && base_.IsAheadOf(*slice->reports.sum())) {
    // A checkpoint was completed while it was restored from an older one.
    Give(*slice, slice->server);
    outdated_ = true;
    return true;
  }
  slice->live = true;
  ++live_;
  return true;
}

Result<bool> SliceMap::Report(const ServerHeartbeat& heartbeat, const std::vector<NodeId>& servers) {
  bool changed = false;
  Status failure;
  for (PlacedSlice& slice : states_) {
    if (!slice.returning || slice.replica == NodeId() || slice.server != heartbeat.node) continue;
    slice.returned = true;
    if (slice.reports.sum() && !slice.live) changed = GoLive(&slice);
  }
  for (const LedgerReport& report : heartbeat.ledgers)
    changed = Add(heartbeat.node, heartbeat.report, report) || changed;
  for (const SliceIncarnation& slice_incarnation : heartbeat.failed) {
    PlacedSlice* slice = Find(slice_incarnation);
    if (!slice || slice->server != heartbeat.node || slice->live) continue;
    NodeId server = heartbeat.node;
    if (++slice->failures >= kMaxFailures) {
      slice->failures = 0;
      slice->failed_servers.insert(heartbeat.node);
      // The server with the fewest bytes that has not failed to restore it.
      ServerBytes bytes = BytesOn(servers, states_);
      for (const NodeId failed : slice->failed_servers) bytes.erase(failed);
      server = bytes.empty() ? NodeId() : WithLeast(bytes)->first;
    }
    if (server == NodeId()) {
      failure = Status(Code::kDataLoss, "slice " + ToString(slice_incarnation.slice) +
                                            " cannot be restored on ps node " + ToString(heartbeat.node) +
                                            ", nor on any other: " + heartbeat.failure);
      continue;
    }
    Give(*slice, server);
    changed = true;
  }
  Derive();
  if (!failure.ok()) return failure;
  return changed;
}

void SliceMap::ReportAll(const LedgerReport& report) {
  if (report.partitions.size() != base_.watermark.size()) return;
  const auto shared = std::make_shared<const LedgerReport>(report);
  for (PlacedSlice& slice : states_) {
    const SharedReport& last = slice.reports.sum();
    if (last && Overtaken(report, *last)) return;
    slice.reports.Set(shared);
    if (!slice.live) ++live_;
    slice.live = true;
  }
  Derive();
}

void SliceMap::Derive() {
  std::vector<SharedReport> reports;
  for (const PlacedSlice& slice : states_) {
    const SharedReport& report = slice.reports.sum();
    if (slice.live && (reports.empty() || reports.back() != report)) reports.push_back(report);
  }
  SliceProgress::Derive(std::move(reports));
}

}  // namespace leat::protocol
