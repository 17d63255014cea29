#include "protocol/coordinator/leases/round_queue.h"

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

void RoundQueue::ForgetLeases() {
  leases_.clear();
  workers_.clear();
  released_.clear();
  pace_.Clear();
}

void RoundQueue::ForgetRounds() {
  ForgetLeases();
  rounds_.clear();
}

void RoundQueue::Rollback(uint64_t step) {
  ForgetLeases();
  take_back_.reset();
  left_.clear();
  version_ = step;
  if (paused_from_) paused_from_ = step;
  settled_ = awaiting_ = go_on_ = false;
  for (auto& [first_step, round] : rounds_) {
    round.touched = false;
    round.shares.clear();
    for (uint32_t lane = 0; lane < round.parts.size(); ++lane) {
      round.parts[lane].holders.clear();
      Free(Time(0), {first_step, lane});
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
    ForgetRounds();
    awaiting_ = false;  // leases of the forgotten rounds do not fit those to come
  }
  next_step_ = rounds_.empty() ? version_ : End(std::prev(rounds_.end()));
  version_ = std::min(version_, next_step_);

  std::map<std::pair<uint32_t, Position>, RunSet> assigned;
  for (auto& [first_step, round] : rounds_) {
    for (uint32_t lane = 0; lane < round.parts.size(); ++lane) {
      Lane& part = round.parts[lane];
      if (first_step + round.length <= version_) {
        Finish(&round, lane);
        released_.erase({first_step, lane});
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
  if (!awaiting_ || at == rounds_.end() || claim.lane >= at->second.parts.size()) return;
  Lane& part = at->second.parts[claim.lane];
  const bool may_hold = part.stage == Stage::kAwaited || part.stage == Stage::kLeased;
  if (!may_hold || part.holders.size() > 1 || Holds(part, worker) || leases_.contains(claim.lease)) return;
  if (part.cut.partition != claim.partition || part.cut.begin != claim.begin) return;
  part.stage = Stage::kLeased;
  part.granted = true;
  part.holders.push_back({claim.lease, worker});
  ++at->second.shares[worker];
  leases_[claim.lease] = {claim.first_step, claim.lane};
  workers_[worker].insert(claim.lease);
  pace_.OnGranted(now, worker, claim.lease);
}

void RoundQueue::EndAwait(Time now, const HeartbeatCounts& heartbeat_counts) {
  awaiting_ = false;
  for (auto& [first_step, round] : rounds_) {
    for (uint32_t lane : round.free) round.parts[lane].free_since = now;
    for (uint32_t lane = 0; lane < round.parts.size(); ++lane) {
      Lane& part = round.parts[lane];
      if (part.stage != Stage::kAwaited) continue;
      part.stage = Stage::kReleased;
      part.released_by = NodeId();
      part.released_at = heartbeat_counts;
      released_.insert({first_step, lane});
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
    round.free.insert(static_cast<uint32_t>(round.parts.size()));
    round.parts.push_back({lane.cut, lane.assigned});
    round.parts.back().free_since = now;
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
    Round& round = rounds_.begin()->second;
    for (uint32_t lane = 0; lane < round.parts.size(); ++lane) {
      released_.erase({rounds_.begin()->first, lane});
      Finish(&round, lane);
    }
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
    for (uint32_t lane = 0; lane < at->second.parts.size(); ++lane) {
      if (at->second.parts[lane].stage == Stage::kDone) Free(now, {at->first, lane});
    }
  }
}

// ---- leases

// One for all lanes, because a step is one update.
float RoundQueue::RateOf(uint64_t first_step, const Round& round) const {
  float rate = 1;
  for (const Lane& part : round.parts) rate = std::max(rate, cursors_->rates().Of(part.cut));
  return std::min(rate * lanes_.RateAt(first_step), kMaxRate);
}

RunSet RoundQueue::Wanted(uint64_t first_step, const Lane& part, const SliceMap& slices) const {
  const RunSet missing = slices.Missing(part.cut);
  RunSet wanted(missing.size());
  ForEachRun(first_step, part.assigned, [&](uint32_t run, uint64_t step) {
    if (step >= version_ && (!stop_at_ || step < *stop_at_) && missing.Has(run)) wanted.Add(run);
  });
  return wanted;
}

// The lanes of a worker's rank are its own. A lane given back goes to anyone with less than its share, an
// unclaimed one to anyone. A worker that joins, or is found to be fast, takes lanes from those that have more
// than they should.
std::optional<uint32_t> RoundQueue::LaneFor(Time now, NodeId worker, Round* round) {
  const auto rank = ranks_.find(worker);
  if (rank == ranks_.end()) return std::nullopt;
  const auto width = static_cast<uint32_t>(round->parts.size());
  const auto [fewest, most] = shares_.CountOf(rank->second, width);
  const uint64_t has = ShareOf(*round, worker);
  const bool less = has < most;
  const auto [begin, end] = shares_.LanesOf(rank->second, width);
  for (uint32_t lane = begin; less && lane < end; ++lane) {
    Lane& part = round->parts[lane];
    if (Holds(part, worker)) continue;
    if (part.stage == Stage::kFree && round->free.contains(lane)) return lane;
    if (MayTake(*round, part, has)) return TakeLane(round, lane);
  }
  for (uint32_t lane : round->free) {
    const Lane& part = round->parts[lane];
    if (Holds(part, worker)) continue;
    // A worker that does not know this coordinator yet is not slow.
    const bool unclaimed = !awaiting_ && now - part.free_since >= lane_wait_;
    if ((less && part.granted) || unclaimed) return lane;
  }
  // Its own ones may be held by others that have no more than they should.
  if (has >= fewest) return std::nullopt;
  for (uint32_t lane = 0; lane < width; ++lane) {
    const Lane& part = round->parts[lane];
    if (!MayTake(*round, part, has)) continue;
    const auto holder = ranks_.find(part.holders[0].worker);
    if (holder == ranks_.end()) continue;
    const auto [first, last] = shares_.LanesOf(holder->second, width);
    if (lane < first || lane >= last) return TakeLane(round, lane);
  }
  return std::nullopt;
}

uint32_t RoundQueue::ShareOf(const Round& round, NodeId worker) {
  const auto at = round.shares.find(worker);
  return at == round.shares.end() ? 0 : at->second;
}

// By a worker that has so many, and should have more.
bool RoundQueue::MayTake(const Round& round, const Lane& part, uint64_t has) const {
  if (part.stage != Stage::kLeased || part.holders.size() != 1) return false;
  const auto width = static_cast<uint32_t>(round.parts.size());
  const uint64_t held = ShareOf(round, part.holders[0].worker);
  const auto holder = ranks_.find(part.holders[0].worker);
  if (holder == ranks_.end() || shares_.even(width)) return held >= has + 2;
  return held > shares_.CountOf(holder->second, width).second;
}

uint32_t RoundQueue::TakeLane(Round* round, uint32_t lane) {
  Lane& part = round->parts[lane];
  Drop(part.holders[0].lease);
  round->free.insert(lane);
  part.stage = Stage::kFree;
  part.granted = false;  // not after a loss
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
    while (const auto lane = LaneFor(now, worker, &round)) {
      Lane& part = round.parts[*lane];
      RunSet wanted = Wanted(first_step, part, slices);
      if (wanted.empty()) {
        Finish(&round, *lane);
        continue;
      }
      if (part.granted) ++regranted_;
      round.free.erase(*lane);
      round.touched = true;
      ++round.shares[worker];
      part.stage = Stage::kLeased;
      part.granted = true;
      const uint64_t id = next_id();
      part.holders.push_back({id, worker});
      leases_[id] = {first_step, *lane};
      workers_[worker].insert(id);
      pace_.OnGranted(now, worker, id);
      return Lease{.id = id,
                   .cut = part.cut,
                   .missing = std::move(wanted),
                   .first_step = first_step,
                   .lane = *lane,
                   .width = static_cast<uint32_t>(round.parts.size()),
                   .needed = round.needed,
                   .assigned = part.assigned,
                   .rate = RateOf(first_step, round),
                   .labels = cursors_->LabelsOf(part.cut)};
    }
    if (std::ranges::any_of(round.parts, Unsettled)) break;
  }
  return std::nullopt;
}

void RoundQueue::TakeShare(Round* round, NodeId worker) {
  const auto share = round->shares.find(worker);
  if (share != round->shares.end() && share->second > 0) --share->second;
}

void RoundQueue::Free(Time now, LaneKey key) {
  Round& round = rounds_.at(key.first);
  Lane& part = round.parts[key.second];
  if (part.stage == Stage::kReleased) TakeShare(&round, part.released_by);
  part.stage = Stage::kFree;
  part.free_since = now;
  part.released_at.clear();
  round.free.insert(key.second);
}

// Frees the lane for another worker if it has no lease, or a single one that is overdue.
void RoundQueue::FreeIfAbandoned(Time now, LaneKey key) {
  Round& round = rounds_.at(key.first);
  Lane& part = round.parts[key.second];
  if (part.holders.size() > 1 || (part.holders.size() == 1 && !part.holders[0].overdue)) {
    if (part.stage == Stage::kReleased) TakeShare(&round, part.released_by);
    part.stage = Stage::kLeased;
    return;
  }
  const bool overdue = !part.holders.empty();
  Free(now, key);
  if (overdue) part.free_since = now - lane_wait_;  // for anyone, at once
}

// The lane needs no worker any more.
void RoundQueue::Finish(Round* round, uint32_t lane) {
  Lane& part = round->parts[lane];
  while (!part.holders.empty()) Drop(part.holders.back().lease);
  round->free.erase(lane);
  part.stage = Stage::kDone;
}

// Removes the lease; its worker learns of it by Reconcile.
void RoundQueue::Drop(uint64_t lease) {
  const auto at = leases_.find(lease);
  if (at == leases_.end()) return;
  Round& round = rounds_.at(at->second.first);
  Lane& part = round.parts[at->second.second];
  const auto holder = std::ranges::find(part.holders, lease, &LeaseHolder::lease);
  if (const auto own = workers_.find(holder->worker); own != workers_.end()) own->second.erase(lease);
  TakeShare(&round, holder->worker);
  pace_.OnTaken(holder->worker, lease);
  part.holders.erase(holder);
  leases_.erase(at);
}

void RoundQueue::FreeOverdue(Time now) {
  for (uint64_t id : pace_.Overdue(now)) {
    const LaneKey key = leases_.at(id);
    Lane& part = rounds_.at(key.first).parts[key.second];
    std::ranges::find(part.holders, id, &LeaseHolder::lease)->overdue = true;
    ++overdue_;
    if (part.stage == Stage::kLeased) FreeIfAbandoned(now, key);
  }
}

void RoundQueue::Release(Time now, uint64_t id, NodeId worker, const HeartbeatCounts& heartbeat_counts) {
  const auto own = workers_.find(worker);
  if (own == workers_.end() || !own->second.contains(id)) return;
  const LaneKey key = leases_.at(id);
  Round& round = rounds_.at(key.first);
  Lane& part = round.parts[key.second];
  pace_.OnEnded(now, worker, id);
  Drop(id);
  ++round.shares[worker];  // completed lanes count, too
  round.free.erase(key.second);
  part.stage = Stage::kReleased;
  part.released_by = worker;
  part.released_at = heartbeat_counts;
  released_.insert(key);
}

std::vector<uint64_t> RoundQueue::Reconcile(Time now, NodeId worker, std::vector<uint64_t> held) {
  std::sort(held.begin(), held.end());
  std::vector<uint64_t> revoked, lost;
  const auto own = workers_.find(worker);
  if (own == workers_.end()) return held;
  for (uint64_t id : held) {
    if (!own->second.contains(id)) revoked.push_back(id);
  }
  std::ranges::set_difference(own->second, held, std::back_inserter(lost));
  for (uint64_t id : lost) {
    const LaneKey key = leases_.at(id);
    Lane& part = rounds_.at(key.first).parts[key.second];
    Drop(id);
    if (part.stage == Stage::kLeased) FreeIfAbandoned(now, key);
    if (part.holders.empty()) part.granted = false;
  }
  return revoked;
}

void RoundQueue::Reclaim(Time now, NodeId worker) {
  shares_.Forget(worker);
  const auto own = workers_.find(worker);
  if (own == workers_.end()) return;
  while (!own->second.empty()) {
    const uint64_t id = *own->second.begin();
    const LaneKey key = leases_.at(id);
    Drop(id);
    if (rounds_.at(key.first).parts[key.second].stage == Stage::kLeased) FreeIfAbandoned(now, key);
  }
  workers_.erase(own);
  pace_.Forget(worker);
}

// Every slice has the round's steps. Runs that no ledger has become leftovers.
void RoundQueue::Close(Time now, Rounds::iterator at, const SliceMap& slices) {
  auto& [first_step, round] = *at;
  for (uint32_t lane = 0; lane < round.parts.size(); ++lane) {
    Lane& part = round.parts[lane];
    Finish(&round, lane);
    released_.erase({first_step, lane});
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
    if (!AllReportedSince(part.released_at, heartbeat_counts)) {
      ++at;
      continue;
    }
    if (Wanted(at->first, part, slices).empty()) {
      Finish(&rounds_.at(at->first), at->second);
    } else {
      part.stage = Stage::kReleased;
      FreeIfAbandoned(now, *at);
    }
    part.released_at.clear();
    at = released_.erase(at);
  }
}

}  // namespace leat::protocol
