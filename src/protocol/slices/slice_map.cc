#include "protocol/slices/slice_map.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "protocol/guards.h"
#include "protocol/placement.h"

namespace leat::protocol {

namespace {

// All-reduce: a ledger only grows within an incarnation, so a shorter one is in an older report that was
// delayed.
bool Overtaken(const LedgerReport& report, const LedgerReport& last) {
  if (report.version < last.version) return true;
  for (size_t p = 0; p < report.partitions.size(); ++p) {
    if (report.partitions[p].done < last.partitions[p].done) return true;
  }
  return false;
}

// The server with the fewest bytes that has not failed to restore the slice; 0 if there is none.
NodeId Replacement(const std::vector<PlacedSlice>& slices, const PlacedSlice& slice,
                   const std::vector<NodeId>& servers) {
  std::map<NodeId, uint64_t> bytes;
  for (NodeId server : servers) {
    if (std::ranges::find(slice.failed_servers, server) == slice.failed_servers.end()) bytes[server] = 0;
  }
  for (const PlacedSlice& other : slices) {
    if (auto at = bytes.find(other.server); at != bytes.end()) at->second += other.bytes;
  }
  const auto least = std::ranges::min_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return least == bytes.end() ? NodeId() : least->first;
}

void AddTo(NodeId other, uint64_t epoch, const SliceOrder& order, std::vector<ReplicaGroup>* groups) {
  if (epoch == 0) return;
  auto at = std::ranges::find_if(
      *groups, [&](const ReplicaGroup& group) { return group.epoch == epoch && group.server == other; });
  if (at == groups->end()) at = groups->insert(at, {.epoch = epoch, .server = other});
  at->slices.push_back({order.slice, order.incarnation});
}

}  // namespace

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

void SliceMap::SetStart(const std::vector<Position>& start) {
  base_.watermark = start;
  Derive();
}

void SliceMap::SetSource(const Manifest& manifest) {
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& slice_incarnation : shard.slices) {
      source_[slice_incarnation.slice.value] = {
          slice_incarnation.slice, {}, manifest.directory, shard.file, shard.checksum};
    }
  }
  for (PlacedSlice& slice : states_) {
    slice.failures = 0;
    slice.failed_servers.clear();
  }
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

void SliceMap::ForgetParts(NodeId server) {
  for (PlacedSlice& slice : states_) slice.reports.ForgetParts(server);
}

void SliceMap::PlaceAll(const std::vector<NodeId>& servers, const std::vector<uint32_t>& assignment) {
  for (size_t i = 0; i < states_.size(); ++i) Give(states_[i], servers[assignment[i]]);
  placed_ = true;
  Derive();
}

void SliceMap::Promote(PlacedSlice& slice) {
  slice.server = std::exchange(slice.replica, NodeId());
  slice.failures = 0;
  slice.failed_servers.clear();
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
  std::map<NodeId, uint64_t> bytes;
  for (NodeId server : servers) bytes[server] = 0;
  std::vector<PlacedSlice*> orphans;
  for (PlacedSlice& slice : states_) {
    if (auto at = bytes.find(slice.server); at != bytes.end()) at->second += slice.bytes;
    if (slice.server == NodeId() && slice.former == former) orphans.push_back(&slice);
  }
  std::stable_sort(orphans.begin(), orphans.end(),
                   [](const PlacedSlice* a, const PlacedSlice* b) { return a->bytes > b->bytes; });
  for (PlacedSlice* slice : orphans) {
    const auto least = std::min_element(bytes.begin(), bytes.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    least->second += slice->bytes;
    Give(*slice, least->first);
  }
  Derive();
}

bool SliceMap::RestoreAgain(const std::vector<Incarnation>& incarnations) {
  bool any = false;
  for (size_t i = 0; i < states_.size(); ++i) {
    PlacedSlice& slice = states_[i];
    if (slice.server == NodeId() || slice.incarnation == incarnations[i]) continue;
    Give(slice, slice.server);
    any = true;
  }
  if (any) Derive();
  return any;
}

void SliceMap::RestoreAll() {
  for (PlacedSlice& slice : states_) {
    if (slice.server != NodeId()) Give(slice, slice.server);
  }
  Derive();
}

void SliceMap::RestoreUnfinished() {
  for (PlacedSlice& slice : states_) {
    if (slice.server != NodeId() && !slice.live) Give(slice, slice.server);
  }
  Derive();
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

bool SliceMap::returning() const {
  return std::ranges::any_of(states_, &PlacedSlice::returning);
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
  slice.failures = 0;
  slice.failed_servers.clear();
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
  std::vector<ReplicaGroup> groups;
  for (const PlacedSlice& slice : states_) {
    if (slice.server == server) AddTo(slice.replica, slice.epoch, slice.order, &groups);
  }
  return groups;
}

std::vector<ReplicaGroup> SliceMap::ReplicasOn(NodeId server) const {
  std::vector<ReplicaGroup> groups;
  for (const PlacedSlice& slice : states_) {
    if (slice.replica == server) AddTo(slice.server, slice.epoch, slice.order, &groups);
  }
  return groups;
}

size_t SliceMap::replicated() const {
  return static_cast<size_t>(
      std::ranges::count_if(states_, [](const PlacedSlice& slice) { return slice.replica != NodeId(); }));
}

std::vector<NodeId> SliceMap::Orphaned() const {
  std::set<NodeId> former;
  for (const PlacedSlice& slice : states_) {
    if (placed_ && slice.server == NodeId()) former.insert(slice.former);
  }
  return {former.begin(), former.end()};
}

bool SliceMap::Holds(NodeId server) const {
  return std::any_of(states_.begin(), states_.end(),
                     [server](const PlacedSlice& slice) { return slice.server == server; });
}

bool SliceMap::HoldsReplicas(NodeId server) const {
  return std::ranges::any_of(states_, [server](const PlacedSlice& slice) { return slice.replica == server; });
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
    slice->failures = 0;
    slice->failed_servers.clear();
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
      if (std::ranges::count(slice->failed_servers, heartbeat.node) == 0)
        slice->failed_servers.push_back(heartbeat.node);
      server = Replacement(states_, *slice, servers);
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
