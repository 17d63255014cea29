#include "protocol/leases/held/held_splits.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace leat::protocol {

namespace {

// An upper limit for steps; a lease beyond it is invalid.
constexpr uint64_t kMaxSteps = uint64_t{1} << 62;
// The most splits that a fast worker leases ahead; if it dies, all are leased again.
constexpr uint32_t kMaxLeasesAhead = 32;

}  // namespace

// ---- the coordinator's word

bool HeldSplits::Fits(const Lease& granted) const {
  const uint32_t runs = granted.cut.valid() ? granted.cut.runs() : 0;
  const bool fits =
      runs > 0 && granted.missing.size() == runs && granted.labels.has_value() == options_.late_labels;
  if (!options_.stepped || !fits) return fits;
  const StepLane step_lane{granted.first_step, granted.lane, granted.width, granted.needed};
  RunSet both = granted.missing;
  return granted.assigned.size() == runs && !granted.assigned.empty() && step_lane.valid() &&
         granted.first_step < kMaxSteps && (both &= granted.assigned) == granted.missing;
}

void HeldSplits::Take(const Lease& granted) {
  if (held_.contains(granted.id)) return;
  if (!Fits(granted)) {
    released_.push_back(granted.id);
    return;
  }
  HeldSplit& split = held_[granted.id];
  split.lease = granted;
  for (uint32_t i = 0; i < granted.missing.size(); ++i) {
    if ((options_.stepped ? granted.assigned : granted.missing).Has(i)) split.runs.push_back(i);
  }
  while (!split.runs.empty() && !granted.missing.Has(split.runs.back())) split.runs.pop_back();
  order_.push_back(granted.id);
  outbox_.actions.emplace_back(PrepareSplit{granted});
}

void HeldSplits::OnAnswered() {
  released_.erase(released_.begin(), released_.begin() + static_cast<std::ptrdiff_t>(reported_));
  reported_ = 0;
  completed_ = 0;
}

void HeldSplits::Report(bool claims, bool more, WorkerHeartbeat* heartbeat) {
  heartbeat->held.assign(order_.begin(), order_.end());
  heartbeat->released = released_;
  for (const uint64_t id : claims ? order_ : std::deque<uint64_t>()) {
    const Lease& lease = held_.at(id).lease;
    heartbeat->claims.push_back({id, lease.cut.partition, lease.cut.begin, lease.first_step, lease.lane});
  }
  const uint32_t has = options_.stepped ? RoundsHeld() : static_cast<uint32_t>(held_.size());
  const uint32_t wanted = Wanted();
  if (more && has < wanted) heartbeat->leases_wanted = wanted - has;
  reported_ = released_.size();
}

uint32_t HeldSplits::Wanted() const {
  // The coordinator decides how far ahead rounds are leased.
  if (options_.stepped) return options_.leases_ahead;
  return std::max(options_.leases_ahead, std::min(2 * completed_, kMaxLeasesAhead));
}

// Rounds with work for this worker.
uint32_t HeldSplits::RoundsHeld() const {
  std::set<uint64_t> rounds;
  for (const auto& [id, split] : held_) {
    if (!split.done()) rounds.insert(split.lease.first_step);
  }
  return static_cast<uint32_t>(rounds.size());
}

// ---- the splits

HeldSplit* HeldSplits::Find(uint64_t id) {
  const auto at = held_.find(id);
  return at == held_.end() ? nullptr : &at->second;
}

HeldSplit* HeldSplits::FirstReady() {
  const auto ready = std::ranges::find_if(order_, [this](uint64_t id) { return held_.at(id).ready; });
  return ready == order_.end() ? nullptr : &held_.at(*ready);
}

HeldSplit* HeldSplits::LowestStep() {
  HeldSplit* best = nullptr;
  const auto key = [](const HeldSplit& split) {
    return std::tuple(split.step(), !split.ready, split.lease.lane, split.lease.id);
  };
  for (auto& [id, split] : held_) {
    if (!split.done() && (!best || key(split) < key(*best))) best = &split;
  }
  return best;
}

bool HeldSplits::LastOfStep(const HeldSplit& split) const {
  return std::ranges::none_of(held_, [&](const auto& other) {
    const HeldSplit& one = other.second;
    return &one != &split && !one.done() && one.step() <= split.step();
  });
}

// ---- the end

void HeldSplits::Drop(uint64_t id) {
  if (held_.erase(id) == 0) return;
  std::erase(order_, id);
  outbox_.actions.emplace_back(DropSplit{id});
}

void HeldSplits::Release(uint64_t id) {
  Drop(id);
  released_.push_back(id);
}

void HeldSplits::Complete(uint64_t id) {
  Release(id);
  ++completed_;
}

void HeldSplits::ReleaseAll() {
  while (!order_.empty()) Release(order_.front());
}

void HeldSplits::DropAll() {
  while (!order_.empty()) Drop(order_.front());
}

void HeldSplits::GiveUp() {
  while (!order_.empty()) {
    const uint64_t id = order_.front();
    const bool begun = held_.at(id).next > 0;
    begun && !options_.stepped ? Release(id) : Drop(id);
  }
}

}  // namespace leat::protocol
