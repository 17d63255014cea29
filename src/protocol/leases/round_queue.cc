#include "protocol/leases/round_queue.h"

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
  settled_ = awaiting_ = go_on_ = false;
  for (auto& [first_step, round] : rounds_) {
    round.touched = false;
    round.shares.clear();
    for (Lane& part : round.parts) {
      part.holders.clear();
      Free(Time(0), &part);
    }
  }
}

// True if no slice has more of the rounds than the steps before its version.
bool RoundQueue::Fits(const SliceMap& slices) const {
  uint64_t step = version_;
  for (const auto& [first_step, round] : rounds_) {
    if (first_step + round.length <= version_) continue;  // for an older step
    if (first_step > step) return false;
    step = first_step + round.length;
    for (const Lane& part : round.parts) {
      const RunSet missing = slices.Missing(part.cut);
      bool lacks = true;
      ForEachRun(first_step, part.assigned, [&](uint32_t run, uint64_t its) {
        if (its >= version_ && !missing.Has(run)) lacks = false;
      });
      if (!lacks) return false;
    }
  }
  return true;
}

// True if the same runs can be trained again in the same steps.
bool RoundQueue::Replays(const SliceMap& slices) const {
  return Fits(slices) && std::ranges::none_of(rounds_, [this](const auto& entry) {
           const auto& [first_step, round] = entry;
           return first_step + round.length > version_ && round.needed < round.parts.size();
         });
}

// True if a run is in two rounds that are not over: the second has been made for runs that were late in the
// first, before a rollback.
bool RoundQueue::AssignsTwice() const {
  std::map<std::pair<uint32_t, Position>, RunSet> assigned;
  for (auto at = rounds_.begin(); at != rounds_.end(); ++at) {
    if (End(at) <= version_) continue;
    for (const Lane& part : at->second.parts) {
      auto [its, fresh] = assigned.try_emplace({part.cut.partition, part.cut.begin}, part.assigned);
      if (fresh) continue;
      RunSet both = its->second;
      if (!(both &= part.assigned).empty()) return true;
      its->second |= part.assigned;
    }
  }
  return false;
}

void RoundQueue::Reconsider(Time now, const SliceMap& slices) {
  settled_ = true;
  version_ = slices.Version();
  const bool usable = std::exchange(go_on_, true) ? Fits(slices) && !AssignsTwice() : Replays(slices);
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
    for (Lane& part : round.parts) {
      if (first_step + round.length <= version_) {
        Finish(&part);
        continue;
      }
      part.free_since = now;
      auto [at, fresh] = assigned.try_emplace({part.cut.partition, part.cut.begin}, part.assigned);
      if (!fresh) at->second |= part.assigned;
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
    for (Lane& part : round.parts) part.stage = Stage::kAwaited;
  }
}

void RoundQueue::Adopt(Time now, NodeId worker, const LeaseClaim& claim) {
  const auto at = rounds_.find(claim.first_step);
  if (at == rounds_.end() || claim.lane >= at->second.parts.size()) return;
  Lane& part = at->second.parts[claim.lane];
  if (part.cut.partition != claim.partition || part.cut.begin != claim.begin) return;
  if (!MayAdopt(part, worker, claim.lease)) return;
  ++at->second.shares[worker];
  Lend(now, &part, claim.lease, worker);
}

void RoundQueue::EndAwait(Time now, const HeartbeatCounts& heartbeat_counts) {
  awaiting_ = false;
  for (auto& [first_step, round] : rounds_) {
    for (uint32_t lane : round.free) round.parts[lane].free_since = now;
    for (Lane& part : round.parts) {
      if (part.stage != Stage::kAwaited) continue;
      part.stage = Stage::kReleased;
      part.released_by = NodeId();
      part.released_at = heartbeat_counts;
      released_.insert(part.key);
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
    return std::ranges::all_of(round.second.parts, [](const Lane& part) {
      return part.stage == Stage::kReleased || part.stage == Stage::kDone;
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
  for (const RoundMade::Lane& lane : made.lanes) {
    const auto number = static_cast<uint32_t>(round.parts.size());
    round.free.insert(number);
    Lane& part = round.parts.emplace_back();
    part.cut = lane.cut;
    part.key = {made.first_step, number};
    part.assigned = lane.assigned;
    part.free_since = now;
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

  for (const RoundMade::Lane& part : made->lanes) {
    if (const auto left = left_.find(cursors_->KeyOf(part.cut)); left != left_.end()) {
      left->second.runs &= part.assigned.Complement();
      if (left->second.runs.empty()) left_.erase(left);
    } else if (cuts_.try_emplace({part.cut.partition, part.cut.begin}, part.cut).second) {
      cursors_->Advance(now, part.cut);
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
    for (Lane& part : rounds_.begin()->second.parts) Finish(&part);
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
    for (const Lane& part : round.parts) {
      tell.lanes.push_back({part.cut, part.assigned, cursors_->LabelsOf(part.cut)});
    }
    told.push_back(std::move(tell));
  }
  return told;
}

void RoundQueue::WaitAnew(Time now, uint64_t from) {
  for (auto round = rounds_.lower_bound(from); round != rounds_.end(); ++round) {
    for (uint32_t lane : round->second.free) round->second.parts[lane].free_since = now;
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
    for (Lane& part : at->second.parts) {
      if (part.stage == Stage::kDone) Free(now, &part);
    }
  }
}

// ---- leases

// All lanes have one rate, because a step is one update.
float RoundQueue::RateOf(uint64_t first_step, const Round& round) const {
  float rate = 1;
  for (const Lane& part : round.parts) rate = std::max(rate, cursors_->rates().Of(part.cut));
  return std::min(rate * lanes_.RateAt(first_step), kMaxRate);
}

RunSet RoundQueue::Wanted(const Lane& part, const SliceMap& slices) const {
  const RunSet missing = slices.Missing(part.cut);
  RunSet wanted(missing.size());
  ForEachRun(part.key.first, part.assigned, [&](uint32_t run, uint64_t step) {
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
  const auto width = static_cast<uint32_t>(round->parts.size());
  const auto [fewest, most] = shares_.CountOf(rank->second, width);
  const uint64_t has = ShareOf(*round, worker);
  const bool less = has < most;
  const auto [begin, end] = shares_.LanesOf(rank->second, width);
  for (uint32_t lane = begin; less && lane < end; ++lane) {
    Lane& part = round->parts[lane];
    if (Holds(part, worker)) continue;
    if (part.stage == Stage::kFree && round->free.contains(lane)) return &part;
    if (MayTake(*round, part, has)) return TakeLane(&part);
  }
  for (uint32_t lane : round->free) {
    Lane& part = round->parts[lane];
    if (Holds(part, worker)) continue;
    // A worker that does not know this coordinator yet is not slow.
    const bool unclaimed = !awaiting_ && now - part.free_since >= lane_wait_;
    if ((less && part.granted) || unclaimed) return &part;
  }
  // Its own ones may be held by others that have no more than they should.
  if (has >= fewest) return nullptr;
  for (Lane& part : round->parts) {
    if (!MayTake(*round, part, has)) continue;
    const auto holder = ranks_.find(part.holders[0].worker);
    if (holder == ranks_.end()) continue;
    const auto [first, last] = shares_.LanesOf(holder->second, width);
    if (part.key.second < first || part.key.second >= last) return TakeLane(&part);
  }
  return nullptr;
}

uint32_t RoundQueue::ShareOf(const Round& round, NodeId worker) {
  const auto at = round.shares.find(worker);
  return at == round.shares.end() ? 0 : at->second;
}

// True if a worker with `has` lanes, which should have more, may take this lane from its holder.
bool RoundQueue::MayTake(const Round& round, const Lane& part, uint64_t has) const {
  if (part.stage != Stage::kLeased || part.holders.size() != 1) return false;
  const auto width = static_cast<uint32_t>(round.parts.size());
  const uint64_t held = ShareOf(round, part.holders[0].worker);
  const auto holder = ranks_.find(part.holders[0].worker);
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

std::optional<Lease> RoundQueue::Grant(Time now, NodeId worker, const SliceMap& slices,
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
                   .width = static_cast<uint32_t>(round.parts.size()),
                   .needed = round.needed,
                   .assigned = lane->assigned,
                   .rate = RateOf(first_step, round),
                   .labels = cursors_->LabelsOf(lane->cut)};
    }
    if (std::ranges::any_of(round.parts, Unsettled)) break;
  }
  return std::nullopt;
}

void RoundQueue::TakeShare(Round* round, NodeId worker) {
  const auto share = round->shares.find(worker);
  if (share != round->shares.end() && share->second > 0) --share->second;
}

void RoundQueue::Free(Time now, Item* item) {
  Lane& part = static_cast<Lane&>(*item);
  const bool overdue = !part.holders.empty();
  part.stage = Stage::kFree;
  part.free_since = overdue ? now - lane_wait_ : now;  // an overdue one is for anyone, at once
  part.released_at.clear();
  RoundOf(part).free.insert(part.key.second);
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
  Lane& part = static_cast<Lane&>(*item);
  Round& round = RoundOf(part);
  ++round.shares[worker];  // completed lanes count, too
  round.free.erase(part.key.second);
  part.released_by = worker;
  released_.insert(part.key);
}

void RoundQueue::Reclaim(Time now, NodeId worker) {
  shares_.Forget(worker);
  LeaseBook::Reclaim(now, worker);
}

// Every slice has the round's steps. Runs that no ledger has become leftovers.
void RoundQueue::Close(Time now, Rounds::iterator at, const SliceMap& slices) {
  auto& [first_step, round] = *at;
  for (Lane& part : round.parts) {
    Finish(&part);
    RunSet late = slices.Missing(part.cut);
    late &= part.assigned;
    if (late.empty()) continue;
    late_ += late.count();
    if (left_.empty()) left_since_ = now;
    auto [left, fresh] = left_.try_emplace(cursors_->KeyOf(part.cut), Leftover{part.cut, late});
    if (!fresh) left->second.runs |= late;
  }
}

void RoundQueue::OnServerReport(Time now, const SliceMap& slices, const HeartbeatCounts& heartbeat_counts) {
  if (!slices.ready() || !settled_) return;
  auto over = FirstOpen();
  version_ = std::max(version_, std::min(slices.Version(), next_step_));
  for (; over != rounds_.end() && End(over) <= version_; ++over) Close(now, over, slices);

  for (auto at = released_.begin(); at != released_.end();) {
    Lane& part = rounds_.at(at->first).parts[at->second];
    ++at;
    if (!AllReportedSince(part.released_at, heartbeat_counts)) continue;
    part.released_at.clear();
    if (Wanted(part, slices).empty()) {
      Finish(&part);
      continue;
    }
    released_.erase(part.key);
    TakeShare(&RoundOf(part), part.released_by);
    FreeIfAbandoned(now, &part);
  }
}

}  // namespace leat::protocol
