#include "protocol/leases/rounds/round_queue.h"

#include <algorithm>
#include <iterator>

#include "protocol/messages_data.h"

namespace leat::protocol {

namespace {

// Calls `f` with each assigned run and its step.
template <class F>
void ForEachRun(uint64_t first_step, const RunSet& assigned, F f) {
  uint64_t step = first_step;
  for (uint32_t run = 0; run < assigned.size(); ++run) {
    if (assigned.Has(run)) f(run, step++);
  }
}

}  // namespace

// ---- recovery

void RoundQueue::Restore(const std::vector<Position>& watermark, uint64_t step, std::vector<Cut> cuts,
                         std::vector<RoundMade> rounds) {
  for (const Cut& cut : cursors_->Restore(watermark, std::move(cuts))) {
    cuts_[{cut.partition, cut.begin}] = cut;
  }
  for (const RoundMade& made : rounds) {
    auto over = rounds_.lower_bound(made.first_step);
    if (over != rounds_.begin() && End(std::prev(over)) > made.first_step) --over;
    rounds_.erase(over, rounds_.end());
    Enter(Time(0), made);
  }
  while (!rounds_.empty() && End(rounds_.begin()) <= step) rounds_.erase(rounds_.begin());
  Rollback(step);
}

void RoundQueue::Rollback(uint64_t step) {
  ForgetLeases();
  released_.clear();
  take_back_.reset();
  left_.clear();
  version_ = step;
  if (paused_from_) paused_from_ = step;
  settled_ = awaiting_ = keep_restored_ = false;
  for (auto& [first_step, round] : rounds_) {
    round.touched = false;
    round.shares.clear();
    for (Lane& lane : round.lanes) {
      lane.holders.clear();
      Free(Time(0), &lane);
    }
  }
}

// True if no slice has more of the rounds than the steps before its version.
bool RoundQueue::Fits(const SliceProgress& slices) const {
  uint64_t step = version_;
  for (const auto& [first_step, round] : rounds_) {
    if (first_step + round.length <= version_) continue;  // for an older step
    if (first_step > step) return false;
    step = first_step + round.length;
    for (const Lane& lane : round.lanes) {
      const RunSet missing = slices.Missing(lane.cut);
      bool lacks = true;
      ForEachRun(first_step, lane.assigned, [&](uint32_t run, uint64_t at_step) {
        if (at_step >= version_ && !missing.Has(run)) lacks = false;
      });
      if (!lacks) return false;
    }
  }
  return true;
}

// True if the same runs can be trained again in the same steps.
bool RoundQueue::Replays(const SliceProgress& slices) const {
  return Fits(slices) && std::ranges::none_of(rounds_, [this](const auto& entry) {
           const auto& [first_step, round] = entry;
           return first_step + round.length > version_ && round.needed < round.lanes.size();
         });
}

// True if a run is in two rounds that are not over: the second has been made for runs that were late in the
// first, before a rollback.
bool RoundQueue::AssignsTwice() const {
  std::map<std::pair<uint32_t, Position>, RunSet> assigned;
  for (auto at = rounds_.begin(); at != rounds_.end(); ++at) {
    if (End(at) <= version_) continue;
    for (const Lane& lane : at->second.lanes) {
      auto [known, fresh] = assigned.try_emplace({lane.cut.partition, lane.cut.begin}, lane.assigned);
      if (fresh) continue;
      RunSet both = known->second;
      if (!(both &= lane.assigned).empty()) return true;
      known->second |= lane.assigned;
    }
  }
  return false;
}

void RoundQueue::Reconsider(Time now, const SliceProgress& slices) {
  settled_ = true;
  version_ = slices.Version();
  const bool usable = std::exchange(keep_restored_, true) ? Fits(slices) && !AssignsTwice() : Replays(slices);
  if (!usable) {
    ForgetLeases();
    released_.clear();
    rounds_.clear();
    awaiting_ = false;  // leases of the forgotten rounds do not fit those to come
  }
  next_step_ = rounds_.empty() ? version_ : End(std::prev(rounds_.end()));
  version_ = std::min(version_, next_step_);

  std::map<std::pair<uint32_t, Position>, RunSet> assigned;
  for (auto& [first_step, round] : rounds_) {
    for (Lane& lane : round.lanes) {
      if (first_step + round.length <= version_) {
        Finish(&lane);
        continue;
      }
      lane.free_since = now;
      auto [at, fresh] = assigned.try_emplace({lane.cut.partition, lane.cut.begin}, lane.assigned);
      if (!fresh) at->second |= lane.assigned;
    }
  }
  left_.clear();
  left_since_ = now;
  for (const auto& [key, cut] : cuts_) {
    RunSet runs = slices.Missing(cut);
    if (const auto at = assigned.find(key); at != assigned.end()) runs &= at->second.Complement();
    if (!runs.empty()) left_[cursors_->KeyOf(cut)] = {cut, std::move(runs)};
  }
}

// ---- workers of a former coordinator

void RoundQueue::Await() {
  awaiting_ = true;
  for (auto& [first_step, round] : rounds_) {
    if (paused_from_ && first_step >= *paused_from_) break;  // nobody holds any of these
    round.touched = true;
    round.free.clear();
    for (Lane& lane : round.lanes) lane.stage = Stage::kAwaited;
  }
}

void RoundQueue::Adopt(Time now, NodeId worker, const LeaseClaim& claim) {
  const auto at = rounds_.find(claim.first_step);
  if (at == rounds_.end() || claim.lane >= at->second.lanes.size()) return;
  Lane& lane = at->second.lanes[claim.lane];
  if (lane.cut.partition != claim.partition || lane.cut.begin != claim.begin) return;
  if (!MayAdopt(lane, worker, claim.lease)) return;
  ++at->second.shares[worker];
  Lend(now, &lane, claim.lease, worker);
}

void RoundQueue::EndAwait(Time now, const HeartbeatCounts& heartbeat_counts) {
  awaiting_ = false;
  for (auto& [first_step, round] : rounds_) {
    for (uint32_t number : round.free) round.lanes[number].free_since = now;
    for (Lane& lane : round.lanes) {
      if (lane.stage != Stage::kAwaited) continue;
      lane.stage = Stage::kReleased;
      lane.released_by = NodeId();
      lane.released_at = heartbeat_counts;
      released_.insert(lane.key);
    }
  }
}

// ---- rounds

void RoundQueue::SetWorkers(const std::map<uint32_t, NodeId>& workers) {
  ranks_.clear();
  std::vector<NodeId> by_rank;
  for (const auto& [index, worker] : workers) {
    ranks_.emplace(worker, static_cast<uint32_t>(by_rank.size()));
    by_rank.push_back(worker);
  }
  shares_.SetWorkers(std::move(by_rank));
}

RoundQueue::Rounds::iterator RoundQueue::FirstOpen() {
  auto at = rounds_.upper_bound(version_);
  if (at != rounds_.begin() && End(std::prev(at)) > version_) --at;
  return at;
}

uint64_t RoundQueue::OpenLimit() {
  // Released lanes count as trained, although no server has reported them yet.
  const auto ended = [](const auto& round) {
    return std::ranges::all_of(round.second.lanes, [](const Lane& lane) {
      return lane.stage == Stage::kReleased || lane.stage == Stage::kDone;
    });
  };
  const auto first = std::find_if_not(FirstOpen(), rounds_.end(), ended);
  const uint64_t base = first == rounds_.end() ? next_step_ : first->first;
  const CutRules& rules = cursors_->rules();
  const uint64_t full = std::min(rules.split_batches, Cut::kMaxBatches) / std::max(1u, rules.run);
  return base + std::max({2 * full, uint64_t{2}, open_steps_}) + strategy_.ahead();
}

void RoundQueue::Enter(Time now, const RoundMade& made) {
  Round& round = rounds_[made.first_step];
  round.needed = made.needed;
  round.length = made.lanes.empty() ? 0 : made.lanes.front().assigned.count();
  for (const RoundMade::Lane& made_lane : made.lanes) {
    const auto number = static_cast<uint32_t>(round.lanes.size());
    round.free.insert(number);
    Lane& lane = round.lanes.emplace_back();
    lane.cut = made_lane.cut;
    lane.key = {made.first_step, number};
    lane.assigned = made_lane.assigned;
    lane.free_since = now;
  }
}

std::optional<RoundMade> RoundQueue::Make(Time now) {
  if (!settled_ || stop_at_ || paused_from_ || take_back_) return std::nullopt;
  if (!cursors_->started() || !cursors_->Known()) return std::nullopt;
  if (next_step_ >= OpenLimit() || (left_.empty() && cursors_->Exhausted())) return std::nullopt;

  static const Passes kNoFurther = PassesFrom(0, 1);
  RoundInput material;
  for (const auto& [key, left] : left_) material.left.push_back(left);
  material.drain = !left_.empty() && now - left_since_ >= tail_wait_;
  for (uint32_t p = 0; p < cursors_->size(); ++p) {
    const PartitionCursors::Partition& head = (*cursors_)[p];
    if (cursors_->Held(p)) {  // leftovers are used as if the stream had not grown
      material.partitions.push_back({head.at, &kNoFurther, head.at.offset, false, false});
      continue;
    }
    material.partitions.push_back(
        {head.at, &head.passes, head.cut_end(), head.complete(), cursors_->Overdue(now, p)});
    if (material.partitions.back().overdue) material.drain = true;
  }
  StrategyConfig strategy = strategy_;
  strategy.lanes = lanes_.At(next_step_);
  auto made = MakeRound(strategy, cursors_->rules(), next_step_, material);
  if (!made) return std::nullopt;

  for (const RoundMade::Lane& lane : made->lanes) {
    if (const auto left = left_.find(cursors_->KeyOf(lane.cut)); left != left_.end()) {
      left->second.runs &= lane.assigned.Complement();
      if (left->second.runs.empty()) left_.erase(left);
    } else if (cuts_.try_emplace({lane.cut.partition, lane.cut.begin}, lane.cut).second) {
      cursors_->Advance(now, lane.cut);
    }
  }
  Enter(now, *made);
  // A worker that may be ahead does not report all the time in which it has nothing to compute.
  const bool full = made->lanes.size() == strategy.total_lanes();
  if (full && strategy.ahead() == 0) shares_.Choose(strategy.total_lanes());
  next_step_ = made->first_step + rounds_.at(made->first_step).length;
  ++made_;
  return made;
}

std::vector<Cut> RoundQueue::Open(const std::vector<Position>& watermark) const {
  std::vector<Cut> open;
  for (const auto& [key, cut] : cuts_) {
    if (cut.next() > watermark[cut.partition]) open.push_back(cut);
  }
  return open;
}

void RoundQueue::DropBefore(const std::vector<Position>& watermark, uint64_t step) {
  lanes_.DropBefore(rounds_.empty() ? step : std::min(step, rounds_.begin()->first));
  std::erase_if(cuts_,
                [&](const auto& entry) { return entry.second.next() <= watermark[entry.second.partition]; });
  // A server may save a step before it has reported the whole of its ledgers: a round is closed first.
  while (!rounds_.empty() && End(rounds_.begin()) <= std::min(step, version_)) {
    for (Lane& lane : rounds_.begin()->second.lanes) Finish(&lane);
    rounds_.erase(rounds_.begin());
  }
}

uint64_t RoundQueue::Untouched() const {
  uint64_t step = version_;
  for (auto round = rounds_.begin(); round != rounds_.end(); ++round) {
    if (round->second.touched || round->first < version_) step = std::max(step, End(round));
  }
  return step;
}

std::vector<protocol::Round> RoundQueue::RoundsFrom(uint64_t from, bool include_unleased) {
  std::vector<protocol::Round> told;
  if (!settled_) return told;
  const uint64_t horizon = OpenLimit();
  for (auto at = FirstOpen(); at != rounds_.end() && at->first < horizon; ++at) {
    auto& [first_step, round] = *at;
    if (Suspended(first_step) || (!include_unleased && !round.touched)) break;
    round.touched = true;
    if (End(at) <= from) continue;
    protocol::Round tell{.first_step = first_step, .rate = RateOf(first_step, round), .lanes = {}};
    for (const Lane& lane : round.lanes) {
      tell.lanes.push_back({lane.cut, lane.assigned, cursors_->LabelsOf(lane.cut)});
    }
    told.push_back(std::move(tell));
  }
  return told;
}

void RoundQueue::WaitAnew(Time now, uint64_t from) {
  for (auto round = rounds_.lower_bound(from); round != rounds_.end(); ++round) {
    for (uint32_t number : round->second.free) round->second.lanes[number].free_since = now;
  }
}

void RoundQueue::LiftHold(Time now) {
  if (hold_from_) WaitAnew(now, *hold_from_);
  hold_from_.reset();
}

void RoundQueue::Continue(Time now) {
  if (paused_from_) WaitAnew(now, *paused_from_);
  paused_from_.reset();
}

void RoundQueue::StopAt(Time now, uint64_t step) {
  if (stop_at_ == step) return;
  stop_at_ = step;
  for (auto at = FirstOpen(); at != rounds_.end(); ++at) {
    for (Lane& lane : at->second.lanes) {
      if (lane.stage == Stage::kDone) Free(now, &lane);
    }
  }
}

// ---- leases

// All lanes have one rate, because a step is one update.
float RoundQueue::RateOf(uint64_t first_step, const Round& round) const {
  float rate = 1;
  for (const Lane& lane : round.lanes) rate = std::max(rate, cursors_->rates().Of(lane.cut));
  return std::min(rate * lanes_.RateAt(first_step), kMaxRate);
}

RunSet RoundQueue::Wanted(const Lane& lane, const SliceProgress& slices) const {
  const RunSet missing = slices.Missing(lane.cut);
  RunSet wanted(missing.size());
  ForEachRun(lane.key.first, lane.assigned, [&](uint32_t run, uint64_t step) {
    if (step >= version_ && (!stop_at_ || step < *stop_at_) && missing.Has(run)) wanted.Add(run);
  });
  return wanted;
}

// The lanes of a worker's rank are its own. A lane given back goes to anyone with less than its share, an
// unclaimed one to anyone. A worker that joins, or is found to be fast, takes lanes from those that have more
// than they should.
RoundQueue::Lane* RoundQueue::LaneFor(Time now, NodeId worker, Round* round) {
  const auto rank = ranks_.find(worker);
  if (rank == ranks_.end()) return nullptr;
  const auto width = static_cast<uint32_t>(round->lanes.size());
  const auto [fewest, most] = shares_.CountOf(rank->second, width);
  const uint64_t has = ShareOf(*round, worker);
  const bool less = has < most;
  const auto [begin, end] = shares_.LanesOf(rank->second, width);
  for (uint32_t number = begin; less && number < end; ++number) {
    Lane& lane = round->lanes[number];
    if (Holds(lane, worker)) continue;
    if (lane.stage == Stage::kFree && round->free.contains(number)) return &lane;
    if (MayTake(*round, lane, has)) return TakeLane(&lane);
  }
  for (uint32_t number : round->free) {
    Lane& lane = round->lanes[number];
    if (Holds(lane, worker)) continue;
    // A worker that does not know this coordinator yet is not slow.
    const bool unclaimed = !awaiting_ && now - lane.free_since >= lane_wait_;
    if ((less && lane.granted) || unclaimed) return &lane;
  }
  // Its own ones may be held by others that have no more than they should.
  if (has >= fewest) return nullptr;
  for (Lane& lane : round->lanes) {
    if (!MayTake(*round, lane, has)) continue;
    const auto holder = ranks_.find(lane.holders[0].worker);
    if (holder == ranks_.end()) continue;
    const auto [first, last] = shares_.LanesOf(holder->second, width);
    if (lane.key.second < first || lane.key.second >= last) return TakeLane(&lane);
  }
  return nullptr;
}

uint32_t RoundQueue::ShareOf(const Round& round, NodeId worker) {
  const auto at = round.shares.find(worker);
  return at == round.shares.end() ? 0 : at->second;
}

// True if a worker with `has` lanes, which should have more, may take this lane from its holder.
bool RoundQueue::MayTake(const Round& round, const Lane& lane, uint64_t has) const {
  if (lane.stage != Stage::kLeased || lane.holders.size() != 1) return false;
  const auto width = static_cast<uint32_t>(round.lanes.size());
  const uint64_t held = ShareOf(round, lane.holders[0].worker);
  const auto holder = ranks_.find(lane.holders[0].worker);
  if (holder == ranks_.end() || shares_.even(width)) return held >= has + 2;
  return held > shares_.CountOf(holder->second, width).second;
}

RoundQueue::Lane* RoundQueue::TakeLane(Lane* lane) {
  DropHolders(lane);
  RoundOf(*lane).free.insert(lane->key.second);
  lane->stage = Stage::kFree;
  lane->granted = false;  // not after a loss
  return lane;
}

std::optional<Lease> RoundQueue::Grant(Time now, NodeId worker, const SliceProgress& slices,
                                       const std::function<uint64_t()>& next_id) {
  if (!settled_) return std::nullopt;
  const uint64_t horizon = OpenLimit();
  for (auto at = FirstOpen(); at != rounds_.end() && at->first < horizon; ++at) {
    auto& [first_step, round] = *at;
    if (Suspended(first_step)) break;
    if (take_back_ && first_step >= take_back_->from) break;
    while (Lane* const lane = LaneFor(now, worker, &round)) {
      RunSet wanted = Wanted(*lane, slices);
      if (wanted.empty()) {
        Finish(lane);
        continue;
      }
      if (lane->granted) ++regranted_;
      round.free.erase(lane->key.second);
      round.touched = true;
      ++round.shares[worker];
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
                   .rate = RateOf(first_step, round),
                   .labels = cursors_->LabelsOf(lane->cut)};
    }
    if (std::ranges::any_of(round.lanes, Unsettled)) break;
  }
  return std::nullopt;
}

void RoundQueue::TakeShare(Round* round, NodeId worker) {
  const auto share = round->shares.find(worker);
  if (share != round->shares.end() && share->second > 0) --share->second;
}

void RoundQueue::Free(Time now, Item* item) {
  Lane& lane = static_cast<Lane&>(*item);
  const bool overdue = !lane.holders.empty();
  lane.stage = Stage::kFree;
  lane.free_since = overdue ? now - lane_wait_ : now;  // an overdue one is for anyone, at once
  lane.released_at.clear();
  RoundOf(lane).free.insert(lane.key.second);
}

// The lane needs no worker any more.
void RoundQueue::Finish(Lane* lane) {
  DropHolders(lane);
  RoundOf(*lane).free.erase(lane->key.second);
  released_.erase(lane->key);
  lane->stage = Stage::kDone;
}

void RoundQueue::OnDropped(Item* item, NodeId worker) {
  TakeShare(&RoundOf(static_cast<Lane&>(*item)), worker);
}

void RoundQueue::OnReleased(Item* item, NodeId worker) {
  Lane& lane = static_cast<Lane&>(*item);
  Round& round = RoundOf(lane);
  ++round.shares[worker];  // completed lanes count, too
  round.free.erase(lane.key.second);
  lane.released_by = worker;
  released_.insert(lane.key);
}

void RoundQueue::Reclaim(Time now, NodeId worker) {
  shares_.Forget(worker);
  LeaseBook::Reclaim(now, worker);
}

// Every slice has the round's steps. Runs that no ledger has become leftovers.
void RoundQueue::Close(Time now, Rounds::iterator at, const SliceProgress& slices) {
  auto& [first_step, round] = *at;
  for (Lane& lane : round.lanes) {
    Finish(&lane);
    RunSet late = slices.Missing(lane.cut);
    late &= lane.assigned;
    if (late.empty()) continue;
    late_ += late.count();
    if (left_.empty()) left_since_ = now;
    auto [left, fresh] = left_.try_emplace(cursors_->KeyOf(lane.cut), Leftover{lane.cut, late});
    if (!fresh) left->second.runs |= late;
  }
}

void RoundQueue::OnServerReport(Time now, const SliceProgress& slices,
                                const HeartbeatCounts& heartbeat_counts) {
  if (!slices.ready() || !settled_) return;
  auto over = FirstOpen();
  version_ = std::max(version_, std::min(slices.Version(), next_step_));
  for (; over != rounds_.end() && End(over) <= version_; ++over) Close(now, over, slices);

  for (auto at = released_.begin(); at != released_.end();) {
    Lane& lane = rounds_.at(at->first).lanes[at->second];
    ++at;
    if (!AllReportedSince(lane.released_at, heartbeat_counts)) continue;
    lane.released_at.clear();
    if (Wanted(lane, slices).empty()) {
      Finish(&lane);
      continue;
    }
    released_.erase(lane.key);
    TakeShare(&RoundOf(lane), lane.released_by);
    FreeIfAbandoned(now, &lane);
  }
}

}  // namespace leat::protocol
