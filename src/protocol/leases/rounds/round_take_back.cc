// lanes: auto: rounds that are not begun are taken back from the workers, and made anew with another number
// of lanes, so that slow steps need not come to the end of all open rounds first.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "protocol/leases/rounds/round_queue.h"

namespace leat::protocol {
namespace {

// Seconds of steps that may be made until nothing of the rounds can arrive any more, and that workers may
// train until they have other rounds.
constexpr double kMargin = 1;

}  // namespace

std::optional<LanesSet> RoundQueue::FollowWorkers(Time now, bool may_take_back) {
  lanes_.Observe(now, static_cast<uint32_t>(ranks_.size()), version_);
  if (!settled_ || stop_at_ || take_back_) return std::nullopt;
  auto set = lanes_.Next(now, next_step_);
  if (!set) {
    gave_up_.reset();
    return std::nullopt;
  }
  if (may_take_back && TakeBackRounds(now, set->lanes)) return std::nullopt;
  if (next_step_ >= OpenLimit()) return std::nullopt;
  lanes_.Set(*set);
  return set;
}

// False if it is not worth it, or has been tried without result for this number.
bool RoundQueue::TakeBackRounds(Time now, uint32_t lanes) {
  if (lanes == lanes_.At(next_step_) || gave_up_ == lanes || hold_from_) return false;
  const double margin = std::ceil(kMargin * lanes_.Pace(now, version_));
  const uint64_t least = version_ + strategy_.ahead() + 1 + static_cast<uint64_t>(margin);
  // Nobody has ended a lane of it, or of a later round.
  auto first = rounds_.lower_bound(least);
  for (auto at = rounds_.end(); at != first; --at) {
    const bool begun = std::ranges::any_of(std::prev(at)->second.lanes, [](const Lane& lane) {
      return lane.stage == Stage::kReleased || lane.stage == Stage::kDone;
    });
    if (!begun) continue;
    first = at;
    break;
  }
  // The rest is over as soon as what has to be trained anyway.
  if (first == rounds_.end() || next_step_ - first->first <= margin) return false;
  take_back_ = TakeBack{first->first, lanes};
  for (; first != rounds_.end(); ++first) {
    for (Lane& lane : first->second.lanes) {
      DropHolders(&lane);
      Free(now, &lane);
      lane.granted = false;
    }
  }
  return true;
}

LanesSet RoundQueue::Remake(Time now) {
  const LanesSet set{take_back_->from, take_back_->lanes};
  take_back_.reset();
  if (left_.empty()) left_since_ = now;
  for (auto at = rounds_.lower_bound(set.first_step); at != rounds_.end(); at = rounds_.erase(at)) {
    for (const Lane& lane : at->second.lanes) {
      const auto [left, fresh] =
          left_.try_emplace(cursors_->KeyOf(lane.cut), Leftover{lane.cut, lane.assigned});
      if (!fresh) left->second.runs |= lane.assigned;
    }
  }
  next_step_ = set.first_step;
  lanes_.Set(set);
  return set;
}

void RoundQueue::AbandonTakeBack(Time now) {
  if (!take_back_) return;
  for (auto at = rounds_.lower_bound(take_back_->from); at != rounds_.end(); ++at) {
    for (const uint32_t number : at->second.free) at->second.lanes[number].free_since = now;
  }
  gave_up_ = take_back_->lanes;
  take_back_.reset();
}

}  // namespace leat::protocol
