#include "protocol/slices/server/hosted_slices.h"

#include <algorithm>

#include "protocol/guards.h"

namespace leat::protocol {

namespace {

// Every kTrafficInterval heartbeats, report the traffic of kMaxTraffic slices.
constexpr uint32_t kMaxTraffic = 8192;
constexpr uint64_t kTrafficInterval = 32;

}  // namespace

HostedSlices::HostedSlices(ServerConfig config)
    : job_(std::move(config)), hosted_(job_.size()), hot_(job_.size()), ledgers_(job_.size()) {}

// ---- slices here

HostedSlice* HostedSlices::Find(const SliceIncarnation& which) {
  const Slice* const slice = Alive(which.slice);
  return slice && guards::SameIncarnation(which.incarnation, slice->incarnation) ? &At(which.slice) : nullptr;
}

const Slice& HostedSlices::WithLedger(const HostedSlice& hosted) const {
  const SliceId id = hosted.order.slice;
  if (std::exchange(hot_[id.value].ledger_outdated, false)) hosted.slice->ledger = ledgers_.Get(id.value);
  return *hosted.slice;
}

// ---- changes

HostedSlice* HostedSlices::Add(const SliceOrder& order) {
  HostedSlice& hosted = hosted_[order.slice.value].emplace();
  hosted.order = order;
  return &hosted;
}

void HostedSlices::MakeLive(HostedSlice* hosted, std::shared_ptr<Slice> slice,
                            std::vector<DecidedStep> decided) {
  ++live_;
  ledgers_.Put(slice->id.value, slice->ledger);
  HotSlice& hot = Hot(slice->id) = {};
  (hosted->is_replica ? hot.replica : hot.alive) = slice.get();
  if (hosted->is_replica) ++replicas_;
  changes_.push_back({SliceChange::Kind::kLive, slice->id, false, std::move(decided)});
  hosted->slice = std::move(slice);
}

void HostedSlices::Fail(HostedSlice* hosted, std::string why) {
  hosted->failed = true;
  failure_ = std::move(why);
}

void HostedSlices::OnLoaded(const SliceOrder& order, Result<Slice> loaded) {
  if (order.slice.value >= size() || !hosted_[order.slice.value]) return;
  HostedSlice& hosted = At(order.slice);
  if (hosted.order.incarnation != order.incarnation || hosted.slice || hosted.failed) return;
  Status status = loaded.status();
  if (status.ok()) {
    loaded->id = order.slice;
    loaded->incarnation = order.incarnation;
    status = job_.Fits(*loaded);
  }
  signals_.heartbeat_urgent = true;
  if (!status.ok()) return Fail(&hosted, status.With(order.directory + "/" + order.file).ToString());
  // The values are sent, so they must be in memory from config.allocate.
  if (job_.config().allocate && loaded->memory) job_.MoveToNewMemory(&*loaded);
  MakeLive(&hosted, std::make_shared<Slice>(std::move(loaded).value()));
}

void HostedSlices::Promote(HostedSlice* hosted, const SliceOrder& order) {
  hosted->order = order;
  // Nobody was told of the runs that it has refused.
  hosted->is_replica = hosted->diverged = false;
  --replicas_;
  HotSlice& hot = Hot(order.slice);
  hot.alive = std::exchange(hot.replica, nullptr);
  changes_.push_back({SliceChange::Kind::kPromoted, order.slice, false, {}});
  signals_.wake_parked = true;
  signals_.heartbeat_urgent = true;
}

void HostedSlices::Drop(SliceId id) {
  std::optional<HostedSlice>& hosted = hosted_[id.value];
  if (!hosted) return;
  signals_.wake_parked = true;
  bool none_left = false;
  if (hosted->slice) {
    if (hosted->is_replica) --replicas_;
    ledgers_.Drop(id.value);
    Hot(id) = {};
    none_left = --live_ == 0;
  }
  changes_.push_back({SliceChange::Kind::kDropped, id, none_left, {}});
  hosted.reset();
}

void HostedSlices::DropAll() {
  for (uint32_t i = 0; i < size(); ++i) Drop(SliceId(i));
}

// ---- copies at a version

void HostedSlices::KeepNothing() {
  keep_at_.reset();
  for (auto& hosted : hosted_) {
    if (hosted) hosted->kept.reset();
  }
}

void HostedSlices::Keep(HostedSlice* hosted, LinkNumber at) {
  hosted->kept = std::make_shared<const Slice>(WithLedger(*hosted));
  hosted->kept_at = at;
}

bool HostedSlices::AllKept() const {
  return std::ranges::all_of(hosted_, [this](const auto& hosted) {
    return !hosted || hosted->is_replica || hosted->kept || hosted->saved >= keep_at_->id;
  });
}

// ---- heartbeats

void HostedSlices::Report(ServerHeartbeat* heartbeat) const {
  heartbeat->progress.bytes_held = 0;
  for (uint32_t i = 0; i < size(); ++i) {
    if (!hosted_[i]) continue;
    if (hosted_[i]->failed) heartbeat->failed.push_back({SliceId(i), hosted_[i]->order.incarnation});
    const Slice* slice = hosted_[i]->slice.get();
    if (slice) heartbeat->progress.bytes_held += MemoryBytes(slice->elements, slice->slots);
  }
  if (!heartbeat->failed.empty()) heartbeat->failure = failure_;
}

std::vector<LedgerReport> HostedSlices::Ledgers() {
  std::vector<LedgerReport> reports;
  for (SliceLedgers::Equal& equal : ledgers_.Classes()) {
    // The servers of the replicas report the others.
    std::erase_if(equal.slices, [this](uint32_t i) { return hot_[i].replicated; });
    if (equal.slices.empty()) continue;
    const Slice* first = hot_[equal.slices[0]].held();
    LedgerReport report{{}, first->events, std::move(equal.partitions), first->version};
    report.slices.reserve(equal.slices.size());
    for (const uint32_t i : equal.slices) {
      const Slice* slice = hot_[i].held();
      report.slices.push_back({slice->id, slice->incarnation});
      report.events = std::min(report.events, slice->events);
      report.version = std::min(report.version, slice->version);
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

void HostedSlices::ReportTraffic(ServerHeartbeat* heartbeat) {
  const auto end = static_cast<uint32_t>(hot_.size());
  if (++heartbeats_ % kTrafficInterval != 0 && traffic_reported_ == 0) return;
  for (; traffic_reported_ < end && heartbeat->traffic.size() < kMaxTraffic; ++traffic_reported_) {
    const HotSlice& slice = hot_[traffic_reported_];
    if (slice.alive) heartbeat->traffic.push_back({SliceId(traffic_reported_), slice.requests, slice.bytes});
  }
  if (traffic_reported_ == end) traffic_reported_ = 0;
}

}  // namespace leat::protocol
