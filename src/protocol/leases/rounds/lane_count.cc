#include "protocol/leases/rounds/lane_count.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

#include "protocol/messages_data.h"

namespace leat::protocol {

void DropUnusedLanes(std::vector<JournalRecord>* records) {
  uint64_t first = UINT64_MAX;
  for (const JournalRecord& record : *records) {
    if (const auto* round = std::get_if<RoundMade>(&record)) first = std::min(first, round->first_step);
  }
  // The last one that begins before all rounds, or with the first of them, holds for it.
  bool later = false;
  for (auto record = records->end(); record != records->begin();) {
    const auto* set = std::get_if<LanesSet>(&*--record);
    if (set == nullptr) continue;
    const bool before = set->first_step <= first;
    if (before && later) record = records->erase(record);
    later = later || before;
  }
}

void LaneCount::Set(const LanesSet& set) {
  lanes_.erase(lanes_.lower_bound(set.first_step), lanes_.end());
  lanes_[set.first_step] = set.lanes;
}

uint32_t LaneCount::At(uint64_t step) const {
  const auto after = lanes_.upper_bound(step);
  return after == lanes_.begin() ? strategy_.lanes : std::prev(after)->second;
}

float LaneCount::RateAt(uint64_t step) const {
  using Scale = StrategyConfig::RateScale;
  if (strategy_.rate_scale == Scale::kNone) return 1;
  const double ratio = static_cast<double>(At(step)) / std::max(strategy_.lanes, 1u);
  const double rate = strategy_.rate_scale == Scale::kLinear ? ratio : std::sqrt(ratio);
  return std::min(static_cast<float>(rate), kMaxRate);
}

void LaneCount::DropBefore(uint64_t step) {
  auto after = lanes_.upper_bound(step);
  if (after != lanes_.begin()) lanes_.erase(lanes_.begin(), std::prev(after));
}

void LaneCount::Observe(Time now, uint32_t workers, uint64_t step) {
  // After a rollback the pace is measured anew.
  if (!seen_ || seen_->workers != workers || step < seen_->step) seen_ = {workers, now, step};
}

std::optional<LanesSet> LaneCount::Next(Time now, uint64_t step) const {
  if (!strategy_.auto_lanes) return std::nullopt;
  if (lanes_.empty()) return LanesSet{step, At(step)};
  if (!seen_ || seen_->workers == 0 || now - seen_->since < kStable) return std::nullopt;
  const uint32_t most = strategy_.on_servers() ? StrategyConfig::kMaxLanes - strategy_.backup
                                               : StrategyConfig::kMaxAllReduceLanes;
  const uint32_t wanted =
      std::clamp(seen_->workers - std::min(seen_->workers - 1, strategy_.backup), 1u, most);
  if (wanted == At(step)) return std::nullopt;
  return LanesSet{step, wanted};
}

double LaneCount::Pace(Time now, uint64_t step) const {
  if (!seen_ || now <= seen_->since || step <= seen_->step) return 0;
  return static_cast<double>(step - seen_->step) / Seconds(now - seen_->since);
}

}  // namespace leat::protocol
