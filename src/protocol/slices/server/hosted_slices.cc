#include "protocol/slices/server/hosted_slices.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "compute/optim/init.h"
#include "compute/optim/moments.h"
#include "protocol/guards.h"

namespace leat::protocol {

namespace {

// Every kTrafficInterval heartbeats, report the traffic of kMaxTraffic slices.
constexpr uint32_t kMaxTraffic = 8192;
constexpr uint64_t kTrafficInterval = 32;

}  // namespace

// ---- rules

void SliceRule::Add(bool first, std::span<float> sum, std::span<const float> pushed, float weight) const {
  if (!moments()) return (first ? optim::SetWeighted : optim::AddWeighted)(sum, pushed, weight);
  if (!first) return optim::MergeMoments(sum, pushed);
  std::ranges::copy(pushed, sum.begin());
}

void SliceRule::Apply(std::span<float> values, std::span<const float> pushed,
                      std::span<const std::span<float>> slot_spans, uint64_t version, float rate) const {
  if (moments()) return optim::MergeMoments(values, pushed);
  optim::Apply(optimizer, values, pushed, slot_spans, version, rate);
}

bool FitsStrategy(const StepLane& step_lane, const StrategyConfig& strategy) {
  const auto& [step, lane, width, needed] = step_lane;
  // How many there are at present, only the coordinator knows.
  if (strategy.auto_lanes) return step_lane.valid() && width - needed <= strategy.backup;
  return width > 0 && width <= strategy.total_lanes() && needed == std::min(strategy.lanes, width);
}

bool FitsStrategy(const DecidedStep& decided, const StrategyConfig& strategy) {
  const uint32_t width = decided.width;
  const StepLane step_lane{decided.step, 0, width, decided.needed};
  if (!FitsStrategy(step_lane, strategy) || decided.needed == width ||
      decided.counted.size() != (width + 63) / 64)
    return false;
  uint32_t lanes = 0;
  for (const uint64_t word : decided.counted) lanes += static_cast<uint32_t>(std::popcount(word));
  return lanes == decided.needed && (width % 64 == 0 || decided.counted.back() >> (width % 64) == 0);
}

// ---- slices

JobSlices::JobSlices(ServerConfig config) : config_(std::move(config)) {
  for (const auto& variable : config_.table.variables) {
    const auto rule = optim::RuleFor(config_.optimizer, variable);
    rules_.push_back({rule, static_cast<uint32_t>(optim::SlotNames(rule).size()),
                      optim::MeanRuleFor(config_.strategy.sum, config_.strategy.full_run, variable.role),
                      optim::NeedsWholeVariables(rule) || variable.role == optim::VariableRole::kMoments,
                      variable.role});
  }
}

std::optional<uint64_t> JobSlices::BytesOf(SliceId id) const {
  if (id.value >= size()) return std::nullopt;
  return MemoryBytes(ElementsOf(id), RuleOf(id).slots);
}

Slice JobSlices::InMemory(SliceId id, Buffer memory) const {
  Slice slice;
  slice.id = id;
  slice.slots = RuleOf(id).slots;
  slice.elements = ElementsOf(id);
  slice.memory = std::move(memory);
  return slice;
}

Status JobSlices::Fits(const Slice& slice) const {
  const SliceSpec& spec = config_.table.slices[slice.id.value];
  const uint32_t slots = RuleOf(slice.id).slots;
  if (slice.elements == spec.elements() && slice.slots == slots &&
      (config_.modelled || slice.memory.size() >= MemoryBytes(slice.elements, slots)) &&
      slice.ledger.partitions().size() == start_.size()) {
    return {};
  }
  return Status(Code::kDataLoss, "slice " + ToString(slice.id) + " has " + std::to_string(slice.elements) +
                                     " elements, " + std::to_string(slice.slots) + " slots and " +
                                     std::to_string(slice.ledger.partitions().size()) +
                                     " partitions; the job has " + std::to_string(spec.elements()) + ", " +
                                     std::to_string(slots) + " and " + std::to_string(start_.size()));
}

void JobSlices::MoveToNewMemory(Slice* slice) const {
  const Buffer old = std::exchange(slice->memory, NewMemory(slice->memory.size()));
  std::memcpy(slice->memory.data(), old.data(), old.size());
}

std::shared_ptr<Slice> JobSlices::Make(const SliceOrder& order) const {
  const SliceSpec& spec = config_.table.slices[order.slice.value];
  const optim::VariableSpec& variable = config_.table.variables[spec.variable];
  const SliceRule& rule = RuleOf(order.slice);
  const uint64_t bytes = MemoryBytes(spec.elements(), rule.slots);
  const auto slice =
      std::make_shared<Slice>(InMemory(order.slice, config_.modelled ? Buffer() : NewMemory(bytes)));
  slice->incarnation = order.incarnation;
  slice->ledger = Ledger(start_);
  if (config_.modelled) return slice;
  optim::Initialise(variable.init, config_.table.seed, variable.name, spec.begin, slice->values());
  for (uint32_t i = 0; i < rule.slots; ++i) {
    std::ranges::fill(slice->slot(i), optim::InitialSlot(rule.optimizer, i));
  }
  return slice;
}

// ---- the slices of a server

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

// ---- copies at a version

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
