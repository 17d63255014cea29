#include "protocol/slices/slice_map.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "protocol/guards.h"

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

// Adds a report to what is known; null: nothing is known.
std::shared_ptr<const LedgerReport> SumOfReports(const LedgerReport* known, const LedgerReport& report,
                                                 size_t partitions) {
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

void AddTo(NodeId other, uint64_t epoch, const SliceOrder& order, std::vector<ReplicaGroup>* groups) {
  if (epoch == 0) return;
  auto at = std::ranges::find_if(
      *groups, [&](const ReplicaGroup& group) { return group.epoch == epoch && group.server == other; });
  if (at == groups->end()) at = groups->insert(at, {.epoch = epoch, .server = other});
  at->slices.push_back({order.slice, order.incarnation});
}

}  // namespace

SliceMap::SliceMap(const SliceTable& table, size_t partitions, NextIncarnation next_incarnation)
    : next_incarnation_(std::move(next_incarnation)),
      table_(&table),
      slices_(table.slices.size()),
      source_(table.slices.size()),
      base_(partitions),
      watermark_(partitions) {
  for (size_t i = 0; i < slices_.size(); ++i) {
    slices_[i].bytes = table.slices[i].elements() * sizeof(float);
    source_[i].slice = SliceId(static_cast<uint32_t>(i));
  }
}

void SliceMap::SetStart(const std::vector<Position>& start) {
  base_ = start;
  Derive();
}

void SliceMap::SetSource(const Manifest& manifest) {
  for (const ManifestShard& shard : manifest.shards) {
    for (const SliceIncarnation& slice_incarnation : shard.slices) {
      source_[slice_incarnation.slice.value] = {
          slice_incarnation.slice, {}, manifest.directory, shard.file, shard.checksum};
    }
  }
  for (State& slice : slices_) {
    slice.failures = 0;
    slice.failed_servers.clear();
  }
  base_ = manifest.watermark;
  base_events_ = manifest.events;
  base_step_ = manifest.step;
  Derive();
}

void SliceMap::Give(State& slice, NodeId server) {
  Forget(slice);
  slice.server = server;
  slice.former = NodeId();
  slice.incarnation = next_incarnation_();
  slice.placed = true;
  Order(slice, 0);
}

void SliceMap::Order(State& slice, uint64_t move) {
  const SliceOrder& source = source_[static_cast<size_t>(&slice - slices_.data())];
  slice.order = source;
  if (move != 0) slice.order = {.slice = source.slice, .move = move};
  slice.order.incarnation = slice.incarnation;
}

NodeId SliceMap::Replacement(const State& slice, const std::vector<NodeId>& servers) const {
  std::map<NodeId, uint64_t> bytes;
  for (NodeId server : servers) {
    if (std::ranges::find(slice.failed_servers, server) == slice.failed_servers.end()) bytes[server] = 0;
  }
  for (const State& other : slices_) {
    if (auto at = bytes.find(other.server); at != bytes.end()) at->second += other.bytes;
  }
  const auto least = std::ranges::min_element(bytes, {}, [](const auto& entry) { return entry.second; });
  return least == bytes.end() ? NodeId() : least->first;
}

void SliceMap::Forget(State& slice) {
  if (slice.live) --live_;
  slice.live = slice.returning = slice.returned = false;
  slice.replica = NodeId();
  slice.epoch = 0;
  slice.report = nullptr;
  slice.parts.clear();
}

void SliceMap::ForgetParts(NodeId server) {
  for (State& slice : slices_) slice.parts.erase(server);
}

void SliceMap::PlaceAll(const std::vector<NodeId>& servers, const std::vector<uint32_t>& assignment) {
  for (size_t i = 0; i < slices_.size(); ++i) Give(slices_[i], servers[assignment[i]]);
  placed_ = true;
  Derive();
}

void SliceMap::Promote(State& slice) {
  slice.server = std::exchange(slice.replica, NodeId());
  slice.failures = 0;
  slice.failed_servers.clear();
  slice.returned = false;
  slice.placed = true;
  Order(slice, std::exchange(slice.epoch, 0));
}

void SliceMap::Orphan(NodeId server) {
  for (State& slice : slices_) {
    if (slice.replica == server) DropReplica(SliceId(static_cast<uint32_t>(&slice - slices_.data())));
    if (slice.server != server) continue;
    if (slice.replica != NodeId()) {
      Promote(slice);
      // The replica goes live if its server has reported it. Otherwise it is still to come back.
      if (slice.returning && slice.report) GoLive(&slice);
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
  std::vector<State*> orphans;
  for (State& slice : slices_) {
    if (auto at = bytes.find(slice.server); at != bytes.end()) at->second += slice.bytes;
    if (slice.server == NodeId() && slice.former == former) orphans.push_back(&slice);
  }
  std::stable_sort(orphans.begin(), orphans.end(),
                   [](const State* a, const State* b) { return a->bytes > b->bytes; });
  for (State* slice : orphans) {
    const auto least = std::min_element(bytes.begin(), bytes.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
    least->second += slice->bytes;
    Give(*slice, least->first);
  }
  Derive();
}

bool SliceMap::RestoreAgain(const std::vector<Incarnation>& incarnations) {
  bool any = false;
  for (size_t i = 0; i < slices_.size(); ++i) {
    State& slice = slices_[i];
    if (slice.server == NodeId() || slice.incarnation == incarnations[i]) continue;
    Give(slice, slice.server);
    any = true;
  }
  if (any) Derive();
  return any;
}

void SliceMap::RestoreAll() {
  for (State& slice : slices_) {
    if (slice.server != NodeId()) Give(slice, slice.server);
  }
  Derive();
}

void SliceMap::RestoreUnfinished() {
  for (State& slice : slices_) {
    if (slice.server != NodeId() && !slice.live) Give(slice, slice.server);
  }
  Derive();
}

void SliceMap::Regroup(const std::vector<NodeId>& workers, Incarnation slice_incarnation, bool survived) {
  const auto assignment =
      Place(*table_, Placement::kPartitioned, std::max<uint32_t>(1, static_cast<uint32_t>(workers.size())));
  for (size_t i = 0; i < slices_.size(); ++i) {
    State& slice = slices_[i];
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
    if (place.slice.value >= slices_.size())
      throw std::invalid_argument("the journal places slice " + ToString(place.slice) + " of " +
                                  std::to_string(slices_.size()));
    State& slice = slices_[place.slice.value];
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
  const auto none = std::ranges::find(slices_, Incarnation(), &State::incarnation);
  if (none != slices_.end())
    throw std::invalid_argument("the journal does not place slice " + std::to_string(none - slices_.begin()));
  placed_ = true;
}

bool SliceMap::returning() const {
  return std::ranges::any_of(slices_, &State::returning);
}

std::vector<SliceAssignment> SliceMap::TakePlaced() {
  std::vector<SliceAssignment> places;
  for (State& slice : slices_) {
    if (!std::exchange(slice.placed, false)) continue;
    places.push_back({SliceId(static_cast<uint32_t>(&slice - slices_.data())), slice.server,
                      slice.incarnation, slice.order.move, slice.replica, slice.epoch});
  }
  return places;
}

void SliceMap::Move(SliceId id, NodeId server, uint64_t move) {
  State& slice = slices_[id.value];
  if (slice.replica == server) return Promote(slice);
  slice.server = server;
  slice.failures = 0;
  slice.failed_servers.clear();
  slice.placed = true;
  Order(slice, move);
  if (slice.replica != NodeId()) slice.epoch = move;
}

void SliceMap::SetReplica(SliceId id, NodeId server, uint64_t move) {
  State& slice = slices_[id.value];
  slice.replica = server;
  slice.epoch = move;
  slice.placed = true;
}

void SliceMap::DropReplica(SliceId id) {
  State& slice = slices_[id.value];
  if (slice.replica == NodeId()) return;
  slice.replica = NodeId();
  slice.epoch = 0;
  slice.placed = true;
  // Nobody's report is waited for any more. Its server may have made its own before it knew of the loss.
  if (slice.returning && slice.returned && slice.report) GoLive(&slice);
}

std::vector<ReplicaGroup> SliceMap::ReplicatedOn(NodeId server) const {
  std::vector<ReplicaGroup> groups;
  for (const State& slice : slices_) {
    if (slice.server == server) AddTo(slice.replica, slice.epoch, slice.order, &groups);
  }
  return groups;
}

std::vector<ReplicaGroup> SliceMap::ReplicasOn(NodeId server) const {
  std::vector<ReplicaGroup> groups;
  for (const State& slice : slices_) {
    if (slice.replica == server) AddTo(slice.server, slice.epoch, slice.order, &groups);
  }
  return groups;
}

size_t SliceMap::replicated() const {
  return static_cast<size_t>(
      std::ranges::count_if(slices_, [](const State& slice) { return slice.replica != NodeId(); }));
}

std::vector<NodeId> SliceMap::Orphaned() const {
  std::set<NodeId> former;
  for (const State& slice : slices_) {
    if (placed_ && slice.server == NodeId()) former.insert(slice.former);
  }
  return {former.begin(), former.end()};
}

bool SliceMap::Holds(NodeId server) const {
  return std::any_of(slices_.begin(), slices_.end(),
                     [server](const State& slice) { return slice.server == server; });
}

bool SliceMap::HoldsReplicas(NodeId server) const {
  return std::ranges::any_of(slices_, [server](const State& slice) { return slice.replica == server; });
}

std::vector<SliceOrder> SliceMap::OrdersFor(NodeId server) const {
  std::vector<SliceOrder> orders;
  for (const State& slice : slices_) {
    if (slice.server == server) orders.push_back(slice.order);
  }
  return orders;
}

std::vector<SliceOrder> SliceMap::Orders() const {
  std::vector<SliceOrder> orders;
  for (const State& slice : slices_) orders.push_back(slice.order);
  return orders;
}

std::vector<SliceLocation> SliceMap::Locations() const {
  std::vector<SliceLocation> locations;
  if (!placed_) return locations;
  locations.reserve(slices_.size());
  for (const State& slice : slices_) locations.push_back({slice.server, slice.incarnation, slice.live});
  return locations;
}

std::vector<Incarnation> SliceMap::Incarnations() const {
  std::vector<Incarnation> incarnations;
  incarnations.reserve(slices_.size());
  for (const State& slice : slices_) incarnations.push_back(slice.incarnation);
  return incarnations;
}

Status SliceMap::CheckFirstSteps(const ServerHeartbeat& heartbeat) const {
  for (const LedgerReport& report : heartbeat.ledgers) {
    if (report.more || report.version == base_step_) continue;
    for (const SliceIncarnation& slice_incarnation : report.slices) {
      if (slice_incarnation.slice.value >= slices_.size()) continue;
      const State& slice = slices_[slice_incarnation.slice.value];
      if (slice.live || slice.returning || slice.server != heartbeat.node ||
          slice.incarnation != slice_incarnation.incarnation)
        continue;
      return Status(Code::kInvalidArgument, "slice " + ToString(slice_incarnation.slice) +
                                                " is restored from step " + std::to_string(base_step_) +
                                                ", ps node " + ToString(heartbeat.node) + " reports step " +
                                                std::to_string(report.version));
    }
  }
  return Status();
}

SliceMap::State* SliceMap::Find(const SliceIncarnation& slice_incarnation) {
  if (slice_incarnation.slice.value >= slices_.size()) return nullptr;
  State& slice = slices_[slice_incarnation.slice.value];
  return guards::SameIncarnation(slice_incarnation.incarnation, slice.incarnation) ? &slice : nullptr;
}

// A slice's ledger is as of one moment: of a report in parts, nothing counts before the last of them.
bool SliceMap::Learn(State* slice, NodeId server, uint64_t number, const LedgerReport& report,
                     std::vector<Learned>* learned) {
  auto part = slice->parts.find(server);
  if (part != slice->parts.end() && part->second.report != number) {
    // Heartbeats may overtake each other.
    if (number < part->second.report) return false;
    slice->parts.erase(part);
    part = slice->parts.end();
  }
  const bool first = part == slice->parts.end();
  const Known before = first ? slice->report : part->second.sum;
  // Another server has reported the slice meanwhile.
  const Known other = first || report.more || part->second.before == slice->report ? nullptr : slice->report;
  auto at = std::ranges::find_if(
      *learned, [&](const Learned& same) { return same.before == before && same.other == other; });
  if (at == learned->end()) {
    const size_t partitions = watermark_.size();
    Known now = SumOfReports(before.get(), report, partitions);
    if (other) now = SumOfReports(other.get(), *now, partitions);
    const auto same = std::ranges::find_if(*learned, [&](const Learned& l) { return *l.now == *now; });
    if (same != learned->end()) now = same->now;
    at = learned->insert(learned->end(), {before, other, std::move(now)});
  }
  if (report.more) {
    slice->parts[server] = {number, first ? slice->report : part->second.before, at->now};
  } else {
    slice->report = at->now;
    slice->parts.erase(server);
  }
  return true;
}

// Returns true if a slice became live.
bool SliceMap::Add(NodeId server, uint64_t number, const LedgerReport& report) {
  const size_t partitions = watermark_.size();
  if (report.first_partition > partitions || report.partitions.size() > partitions - report.first_partition)
    return false;
  bool changed = false;
  std::vector<Learned> learned;
  for (const SliceIncarnation& slice_incarnation : report.slices) {
    State* slice = Find(slice_incarnation);
    // Ignore reports about an unassigned slice: it will be restored from older state.
    if (!slice || slice->server == NodeId()) continue;
    if (!Learn(slice, server, number, report, &learned)) continue;
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

bool SliceMap::GoLive(State* slice) {
  if (std::exchange(slice->returning, false) && Outdated(*slice->report)) {
    // A checkpoint was completed while it was restored from an older one.
    Give(*slice, slice->server);
    outdated_ = true;
    return true;
  }
  slice->live = true;
  ++live_;
  return true;
}

bool SliceMap::Outdated(const LedgerReport& report) const {
  for (size_t p = 0; p < base_.size(); ++p) {
    if (report.partitions[p].done < base_[p]) return true;
  }
  return report.version < base_step_;
}

Result<bool> SliceMap::Report(const ServerHeartbeat& heartbeat, const std::vector<NodeId>& servers) {
  bool changed = false;
  Status failure;
  for (State& slice : slices_) {
    if (!slice.returning || slice.replica == NodeId() || slice.server != heartbeat.node) continue;
    slice.returned = true;
    if (slice.report && !slice.live) changed = GoLive(&slice);
  }
  for (const LedgerReport& report : heartbeat.ledgers)
    changed = Add(heartbeat.node, heartbeat.report, report) || changed;
  for (const SliceIncarnation& slice_incarnation : heartbeat.failed) {
    State* slice = Find(slice_incarnation);
    if (!slice || slice->server != heartbeat.node || slice->live) continue;
    NodeId server = heartbeat.node;
    if (++slice->failures >= kMaxFailures) {
      slice->failures = 0;
      if (std::ranges::count(slice->failed_servers, heartbeat.node) == 0)
        slice->failed_servers.push_back(heartbeat.node);
      server = Replacement(*slice, servers);
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
  if (report.partitions.size() != watermark_.size()) return;
  const auto shared = std::make_shared<const LedgerReport>(report);
  for (State& slice : slices_) {
    if (slice.report && Overtaken(report, *slice.report)) return;
    slice.report = shared;
    if (!slice.live) ++live_;
    slice.live = true;
  }
  Derive();
}

void SliceMap::Derive() {
  reports_.clear();
  for (const State& slice : slices_) {
    if (slice.live && (reports_.empty() || reports_.back() != slice.report)) reports_.push_back(slice.report);
  }
  std::sort(reports_.begin(), reports_.end());
  reports_.erase(std::unique(reports_.begin(), reports_.end()), reports_.end());

  const bool all = ready() && !reports_.empty();
  watermark_ = all ? std::vector<Position>(base_.size(), Position{~0u, ~uint64_t{0}}) : base_;
  version_ = all ? ~uint64_t{0} : base_step_;
  highest_ = base_step_;
  for (const auto& report : reports_) {
    version_ = std::min(version_, report->version);
    highest_ = std::max(highest_, report->version);
    for (size_t p = 0; p < watermark_.size(); ++p) {
      watermark_[p] = std::min(watermark_[p], report->partitions[p].done);
    }
  }
}

uint64_t SliceMap::Events() const {
  uint64_t least = ready() ? ~uint64_t{0} : base_events_;
  for (const auto& report : reports_) least = std::min(least, report->events);
  return least;
}

RunSet SliceMap::Missing(const Cut& cut) const {
  const uint32_t batches = cut.runs();
  if (!ready()) return RunSet(batches, true);
  if (cut.next() <= watermark_[cut.partition]) return RunSet(batches);
  RunSet held(batches, true);
  for (const auto& report : reports_) held &= HeldRuns(report->partitions, cut);
  return held.Complement();
}

bool SliceMap::Complete(const Cut& cut) const {
  if (!ready()) return false;
  if (cut.next() <= watermark_[cut.partition]) return true;
  return std::ranges::all_of(reports_,
                             [&](const Known& report) { return HeldRuns(report->partitions, cut).full(); });
}

RunSet SliceMap::RunsSomeSlicesLack(const Cut& cut) const {
  RunSet lacking = Missing(cut);
  if (lacking.empty()) return lacking;
  RunSet any(cut.runs());
  for (const auto& report : reports_) any |= HeldRuns(report->partitions, cut);
  lacking &= any;
  return lacking;
}

}  // namespace leat::protocol
