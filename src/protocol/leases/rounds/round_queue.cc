#include "protocol/leases/rounds/round_queue.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace leat::protocol {

namespace {

// Seconds of steps that may be made until nothing of the rounds can arrive any more, and that workers may
// train until they have other rounds.
constexpr double kMargin = 1;

}  // namespace

// ---- recovery

void RoundQueue::Restore(const std::vector<Position>& watermark, uint64_t step, std::vector<Cut> cuts,
                         const std::vector<RoundMade>& rounds) {
  rounds_.Restore(watermark, step, std::move(cuts), rounds);
  Rollback(step);
}

void RoundQueue::Rollback(uint64_t step) {
  ForgetLeases();
  From(Suspension::kLaneChange).reset();
  if (auto& paused_from = From(Suspension::kPause)) paused_from = step;
  settled_ = awaiting_ = keep_restored_ = false;
  rounds_.Rollback(step);
  ForEach([this](Item& lane) {
    lane.holders.clear();
    Free(Time(0), &lane);
  });
}

void RoundQueue::Reconsider(Time now, const SliceProgress& slices) {
  settled_ = true;
  if (!rounds_.Resume(slices, std::exchange(keep_restored_, true))) {
    ForgetLeases();
    awaiting_ = false;  // leases of the forgotten rounds do not fit those to come
  }
  for (auto& round : rounds_.all()) {
    const bool over = RoundSequence::End(round) <= rounds_.version();
    for (Lane& lane : round.second.lanes) {
      lane.free_since = now;
      if (over) Finish(&lane);
    }
  }
  rounds_.FindLeftovers(now, slices);
}

void RoundQueue::Await() {
  awaiting_ = true;
  const auto paused_from = suspended_from(Suspension::kPause);
  for (auto& [first_step, round] : rounds_.all()) {
    if (paused_from && first_step >= *paused_from) break;  // nobody holds any of these
    round.touched = true;
    round.free.clear();
    for (Lane& lane : round.lanes) lane.stage = Stage::kAwaited;
  }
}

void RoundQueue::EndAwait(Time now, const HeartbeatCounts& heartbeat_counts) {
  LeaseBook::EndAwait(now, heartbeat_counts);
  WaitAnew(now, 0);
}

// ---- rounds

std::optional<RoundMade> RoundQueue::Make(Time now) {
  if (!settled_ || stop_at_ || From(Suspension::kPause) || From(Suspension::kLaneChange)) return std::nullopt;
  auto made = rounds_.Make(now);
  if (!made) return made;
  // A worker that may be ahead does not report all the time in which it has nothing to compute.
  const uint32_t most = rounds_.lane_count().At(made->first_step) + strategy_.backup;
  if (made->lanes.size() == most && strategy_.ahead() == 0) shares_.Choose(most);
  return made;
}

void RoundQueue::DropBefore(const std::vector<Position>& watermark, uint64_t step) {
  rounds_.DropBefore(watermark, step);
  auto& rounds = rounds_.all();
  // A server may save a step before it has reported the whole of its ledgers: a round is closed first.
  const uint64_t before = std::min(step, rounds_.version());
  const auto kept =
      std::ranges::find_if(rounds, [&](const auto& round) { return RoundSequence::End(round) > before; });
  for (auto at = rounds.begin(); at != kept; ++at) {
    for (Lane& lane : at->second.lanes) Finish(&lane);
  }
  ForgetFinished();
  rounds.erase(rounds.begin(), kept);
}

bool RoundQueue::Suspended(uint64_t first_step) const {
  return std::ranges::any_of(suspended_, [&](const auto& from) { return from && first_step >= *from; });
}

void RoundQueue::WaitAnew(Time now, uint64_t from) {
  auto& rounds = rounds_.all();
  for (auto round = rounds.lower_bound(from); round != rounds.end(); ++round) {
    for (uint32_t number : round->second.free) round->second.lanes[number].free_since = now;
  }
}

void RoundQueue::Resume(Time now, Suspension why) {
  const auto from = std::exchange(From(why), std::nullopt);
  if (!from) return;
  WaitAnew(now, *from);
  if (why == Suspension::kLaneChange) gave_up_ = lanes_wanted_;
}

void RoundQueue::StopAt(Time now, uint64_t step) {
  if (stop_at_ == step) return;
  stop_at_ = step;
  for (auto at = rounds_.FirstOpen(); at != rounds_.all().end(); ++at) {
    for (Lane& lane : at->second.lanes) {
      if (lane.stage == Stage::kDone) Free(now, &lane);
    }
  }
}

std::vector<protocol::Round> RoundQueue::RoundsFrom(uint64_t from, bool include_unleased) {
  std::vector<protocol::Round> told;
  if (!settled_) return told;
  const uint64_t horizon = rounds_.OpenLimit();
  for (auto at = rounds_.FirstOpen(); at != rounds_.all().end() && at->first < horizon; ++at) {
    auto& [first_step, round] = *at;
    if (Suspended(first_step) || (!include_unleased && !round.touched)) break;
    round.touched = true;
    if (RoundSequence::End(*at) <= from) continue;
    protocol::Round tell{.first_step = first_step, .rate = rounds_.RateOf(*at), .lanes = {}};
    for (const Lane& lane : round.lanes)
      tell.lanes.push_back({lane.cut, lane.assigned, rounds_.LabelsOf(lane)});
    told.push_back(std::move(tell));
  }
  return told;
}

// ---- lanes: auto

std::optional<LanesSet> RoundQueue::FollowWorkers(Time now, bool may_take_back) {
  LaneCount& count = rounds_.lane_count();
  count.Observe(now, static_cast<uint32_t>(shares_.workers()), rounds_.version());
  if (!settled_ || stop_at_ || From(Suspension::kLaneChange)) return std::nullopt;
  auto set = count.Next(now, rounds_.next_step());
  if (!set) {
    gave_up_.reset();
    return std::nullopt;
  }
  if ((may_take_back && TakeBack(now, set->lanes)) || rounds_.full()) return std::nullopt;
  count.Set(*set);
  return set;
}

// False if it is not worth it, or has been tried without result for this number.
bool RoundQueue::TakeBack(Time now, uint32_t lanes) {
  if (lanes == rounds_.lanes() || gave_up_ == lanes || From(Suspension::kCheckpoint)) return false;
  const double margin = std::ceil(kMargin * rounds_.lane_count().Pace(now, rounds_.version()));
  const uint64_t least = rounds_.version() + strategy_.ahead() + 1 + static_cast<uint64_t>(margin);
  // Nobody has ended a lane of it, or of a later round.
  auto& rounds = rounds_.all();
  auto first = rounds.end();
  while (first != rounds.begin() && std::prev(first)->first >= least &&
         std::ranges::none_of(std::prev(first)->second.lanes, &Lane::ended))
    --first;
  // The rest is over as soon as what has to be trained anyway.
  if (first == rounds.end() || rounds_.next_step() - first->first <= margin) return false;
  Suspend(Suspension::kLaneChange, first->first);
  lanes_wanted_ = lanes;
  for (; first != rounds.end(); ++first) {
    for (Lane& lane : first->second.lanes) {
      DropHolders(&lane);
      Free(now, &lane);
      lane.granted = false;
    }
  }
  return true;
}

LanesSet RoundQueue::Remake(Time now) {
  const LanesSet set{*std::exchange(From(Suspension::kLaneChange), std::nullopt), lanes_wanted_};
  ForgetFinished();
  rounds_.MakeAnew(now, set);
  return set;
}

// ---- leases

// The lanes of a worker's rank are its own. A lane given back goes to anyone with less than its share, an
// unclaimed one to anyone. A worker that joins, or is found to be fast, takes lanes from those that have more
// than they should.
RoundQueue::Lane* RoundQueue::LaneFor(Time now, NodeId worker, Round* round) {
  const auto rank = shares_.RankOf(worker);
  if (!rank) return nullptr;
  const auto width = static_cast<uint32_t>(round->lanes.size());
  const auto [fewest, most] = shares_.CountOf(*rank, width);
  const uint64_t has = round->ShareOf(worker);
  const bool less = has < most;
  const auto [begin, end] = shares_.LanesOf(*rank, width);
  for (uint32_t number = begin; less && number < end; ++number) {
    Lane& lane = round->lanes[number];
    if (lane.HeldBy(worker)) continue;
    if (lane.stage == Stage::kFree && round->free.contains(number)) return &lane;
    if (MayTake(*round, lane, has)) return TakeLane(&lane);
  }
  for (uint32_t number : round->free) {
    Lane& lane = round->lanes[number];
    if (lane.HeldBy(worker)) continue;
    // A worker that does not know this coordinator yet is not slow.
    const bool unclaimed = !awaiting_ && now - lane.free_since >= lane_wait_;
    if ((less && lane.granted) || unclaimed) return &lane;
  }
  // Its own ones may be held by others that have no more than they should.
  if (has >= fewest) return nullptr;
  for (Lane& lane : round->lanes) {
    if (!MayTake(*round, lane, has)) continue;
    const auto holder = shares_.RankOf(lane.holders[0].worker);
    if (!holder) continue;
    const auto [first, last] = shares_.LanesOf(*holder, width);
    if (lane.key.second < first || lane.key.second >= last) return TakeLane(&lane);
  }
  return nullptr;
}

// True if a worker with `has` lanes, which should have more, may take this lane from its holder.
bool RoundQueue::MayTake(const Round& round, const Lane& lane, uint64_t has) const {
  if (lane.stage != Stage::kLeased || lane.holders.size() != 1) return false;
  const auto width = static_cast<uint32_t>(round.lanes.size());
  const uint64_t held = round.ShareOf(lane.holders[0].worker);
  const auto holder = shares_.RankOf(lane.holders[0].worker);
  if (!holder || shares_.even(width)) return held >= has + 2;
  return held > shares_.CountOf(*holder, width).second;
}

RoundQueue::Lane* RoundQueue::TakeLane(Lane* lane) {
  DropHolders(lane);
  rounds_.RoundOf(*lane).free.insert(lane->key.second);
  lane->stage = Stage::kFree;
  lane->granted = false;  // not after a loss
  return lane;
}

std::optional<Lease> RoundQueue::Grant(Time now, NodeId worker, const SliceProgress& slices,
                                       const std::function<uint64_t()>& next_id) {
  if (!settled_) return std::nullopt;
  const uint64_t horizon = rounds_.OpenLimit();
  for (auto at = rounds_.FirstOpen(); at != rounds_.all().end() && at->first < horizon; ++at) {
    auto& [first_step, round] = *at;
    if (Suspended(first_step)) break;
    while (Lane* const lane = LaneFor(now, worker, &round)) {
      RunSet wanted = rounds_.Wanted(*lane, slices, stop_at_);
      if (wanted.empty()) {
        Finish(lane);
        continue;
      }
      const uint64_t id = next_id();
      Lend(now, lane, id, worker);
      return Lease{.id = id,
                   .cut = lane->cut,
                   .missing = std::move(wanted),
                   .first_step = first_step,
                   .lane = lane->key.second,
                   .width = static_cast<uint32_t>(round.lanes.size()),
                   .needed = round.needed,
                   .assigned = lane->assigned,
                   .rate = rounds_.RateOf(*at),
                   .labels = rounds_.LabelsOf(*lane)};
    }
    if (std::ranges::any_of(round.lanes, &Lane::unsettled)) break;
  }
  return std::nullopt;
}

void RoundQueue::Reclaim(Time now, NodeId worker) {
  shares_.Forget(worker);
  LeaseBook::Reclaim(now, worker);
}

// ---- as the book of leases asks

void RoundQueue::ForEach(const std::function<void(Item&)>& visit) {
  for (auto& [first_step, round] : rounds_.all()) {
    for (Lane& lane : round.lanes) visit(lane);
  }
}

LeaseItem* RoundQueue::Find(const LeaseClaim& claim) {
  const auto at = rounds_.all().find(claim.first_step);
  if (at == rounds_.all().end() || claim.lane >= at->second.lanes.size()) return nullptr;
  Lane& lane = at->second.lanes[claim.lane];
  return lane.cut.partition == claim.partition && lane.cut.begin == claim.begin ? &lane : nullptr;
}

void RoundQueue::Free(Time now, Item* item) {
  Lane& lane = static_cast<Lane&>(*item);
  const bool overdue = !lane.holders.empty();
  lane.stage = Stage::kFree;
  lane.free_since = overdue ? now - lane_wait_ : now;  // an overdue one is for anyone, at once
  lane.released_at.clear();
  rounds_.RoundOf(lane).free.insert(lane.key.second);
}

void RoundQueue::Unfree(const Item& item) {
  const Lane& lane = static_cast<const Lane&>(item);
  rounds_.RoundOf(lane).free.erase(lane.key.second);
}

void RoundQueue::CountShare(const Item& item, NodeId worker, bool more) {
  Round& round = rounds_.RoundOf(static_cast<const Lane&>(item));
  uint32_t& share = round.shares[worker];
  if (more) round.touched = true;
  share = more ? share + 1 : share - std::min(share, 1u);
}

bool RoundQueue::TakeProgress(Time now, const SliceProgress& slices) {
  if (!settled_) return false;
  auto over = rounds_.FirstOpen();
  rounds_.Reach(slices.Version());
  for (; over != rounds_.all().end() && RoundSequence::End(*over) <= rounds_.version(); ++over) {
    for (Lane& lane : over->second.lanes) Finish(&lane);
    rounds_.Close(now, over->second, slices);
  }
  return true;
}

bool RoundQueue::IsComplete(const Item& item, const SliceProgress& slices, bool reported) const {
  return reported && rounds_.Wanted(static_cast<const Lane&>(item), slices, stop_at_).empty();
}

}  // namespace leat::protocol
