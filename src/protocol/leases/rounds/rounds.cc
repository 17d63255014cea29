#include "protocol/leases/rounds/rounds.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "base/check.h"
#include "protocol/messages_data.h"

namespace leat::protocol {

namespace {

// Each of the lanes goes to the worker that has the shortest time with it. That minimizes the longest time.
std::vector<uint32_t> Fastest(uint32_t width, const std::vector<double>& batch_s) {
  std::vector<uint32_t> counts(batch_s.size(), 1);
  using Next = std::pair<double, size_t>;  // time with another lane, and rank
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (size_t rank = 0; rank < batch_s.size(); ++rank) next.emplace(2 * batch_s[rank], rank);
  for (size_t lane = batch_s.size(); lane < width; ++lane) {
    const size_t rank = next.top().second;
    next.pop();
    ++counts[rank];
    next.emplace((counts[rank] + 1) * batch_s[rank], rank);
  }
  return counts;
}

using MadeLane = RoundMade::Lane;
using Partition = RoundInput::Partition;

class Maker {
 public:
  Maker(const StrategyConfig& strategy, const CutRules& rules, const RoundInput& material)
      : rules_(rules), material_(material), lanes_(std::max(strategy.total_lanes(), 1u)) {
    batch_ = std::clamp(rules.batch_size, 1u, Cut::kMaxEvents);
    const uint32_t run = std::clamp(rules.run, 1u, std::min(Cut::kMaxBatches, Cut::kMaxEvents / batch_));
    run_events_ = uint64_t{run} * batch_;
    const uint32_t runs = std::min(rules.split_batches, Cut::kMaxBatches) / run;
    most_ = std::clamp(runs, 1u, static_cast<uint32_t>(Cut::kMaxEvents / run_events_));
    sealed_ = std::all_of(material.partitions.begin(), material.partitions.end(),
                          [](const Partition& p) { return p.sealed; });
  }

  std::vector<MadeLane> Make() {
    // The oldest leftovers must be in the round.
    uint32_t length = most_;
    if (!material_.left.empty()) length = std::min(length, material_.left.front().runs.count());
    const bool shorter = sealed_ || material_.drain;
    for (; length > 1 && Fill(length, nullptr) < lanes_; --length) {
      if (!shorter) return {};
    }
    std::vector<MadeLane> lanes;
    if (Fill(length, &lanes) < lanes_ && !shorter) return {};
    return lanes;
  }

 private:
  // The next material of a partition: its position and the number of runs in this pass.
  struct Rest {
    Position begin;
    uint64_t end = 0;  // end of the events that may be cut now
    uint32_t runs = 0;
  };

  Rest RestOf(const Partition& p) const {
    const auto next = RestAfter(*p.passes, p.at, p.end, p.sealed);
    if (!next || next->begin.offset >= next->end) return {};
    Rest rest{next->begin, next->end, 0};
    const uint64_t there = next->end - next->begin.offset;
    uint64_t runs = there / run_events_;
    if (next->closed) {
      runs = (there + run_events_ - 1) / run_events_;
    } else if (runs > 0) {
      rest.end = rest.begin.offset + runs * run_events_;
    } else if (p.overdue) {
      runs = 1;  // whole batches, or events if there is less than a batch
      if (there >= batch_) rest.end -= there % batch_;
    }
    rest.runs = static_cast<uint32_t>(std::min<uint64_t>(runs, Cut::kMaxBatches));
    return rest;
  }

  // The number of lanes that can have `length` runs; also the lanes themselves if `lanes` is set.
  size_t Fill(uint32_t length, std::vector<MadeLane>* lanes) const {
    size_t filled = 0;
    for (const Leftover& left : material_.left) {
      const size_t more = std::min<size_t>(left.runs.count() / length, lanes_ - filled);
      if (lanes) Divide(left, length, more, lanes);
      filled += more;
    }
    std::vector<Partition> partitions = material_.partitions;
    while (filled < lanes_ && CutOne(length, &partitions, lanes)) ++filled;
    return filled;
  }

  static void Divide(const Leftover& left, uint32_t length, size_t count, std::vector<MadeLane>* lanes) {
    uint32_t run = 0;
    for (size_t i = 0; i < count; ++i) {
      RunSet assigned(left.runs.size());
      for (uint32_t taken = 0; taken < length; ++run) {
        if (!left.runs.Has(run)) continue;
        assigned.Add(run);
        ++taken;
      }
      lanes->push_back({left.cut, std::move(assigned)});
    }
  }

  bool CutOne(uint32_t length, std::vector<Partition>* partitions, std::vector<MadeLane>* lanes) const {
    std::optional<std::tuple<uint32_t, uint64_t, uint32_t>> least;
    Rest rest;
    for (uint32_t i = 0; i < partitions->size(); ++i) {
      const Partition& p = (*partitions)[i];
      const Rest candidate = RestOf(p);
      // In a sealed stream the least advanced partition is never skipped, otherwise it would fall behind. In
      // a live stream a partition may have nothing for a long time.
      if (candidate.runs == 0 || (candidate.runs < length && !sealed_)) continue;
      const std::tuple key(candidate.begin.epoch,
                           candidate.begin.offset - std::min(p.passes->front().begin, candidate.begin.offset),
                           i);
      if (least && *least <= key) continue;
      least = key;
      rest = candidate;
    }
    if (!least || rest.runs < length) return false;
    Partition& p = (*partitions)[std::get<2>(*least)];
    const uint64_t end = std::min(rest.begin.offset + length * run_events_, rest.end);
    const Cut cut = MakeCut(rules_, std::get<2>(*least), p.at, rest.begin, end);
    LEAT_CHECK(cut.runs() == length);
    p.at = cut.next();
    p.overdue = false;
    if (lanes) lanes->push_back({cut, RunSet(length, true)});
    return true;
  }

  const CutRules& rules_;
  const RoundInput& material_;
  size_t lanes_;
  uint32_t batch_ = 1;
  uint64_t run_events_ = 1;  // events of a full run
  uint32_t most_ = 1;        // runs of a full split
  bool sealed_ = true;
};

// Calls `f` with each assigned run and its step.
template <class F>
void ForEachRun(uint64_t first_step, const RunSet& assigned, F f) {
  uint64_t step = first_step;
  for (uint32_t run = 0; run < assigned.size(); ++run) {
    if (assigned.Has(run)) f(run, step++);
  }
}

}  // namespace

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

void LaneShares::SetWorkers(std::vector<NodeId> workers) {
  if (workers == workers_) return;
  workers_ = std::move(workers);
  ranks_.clear();
  for (const NodeId worker : workers_) ranks_.emplace(worker, static_cast<uint32_t>(ranks_.size()));
  ends_.clear();
  measured_ = true;
}

std::optional<uint32_t> LaneShares::RankOf(NodeId worker) const {
  const auto at = ranks_.find(worker);
  return at == ranks_.end() ? std::nullopt : std::optional(at->second);
}

void LaneShares::OnProgress(Time now, NodeId worker, uint64_t batches, double waited_s) {
  const auto [at, fresh] = paces_.try_emplace(worker);
  Pace& pace = at->second;
  const bool going = !fresh && batches >= pace.batches && waited_s >= pace.waited_s;
  if (going && (now - pace.since < kWindow || batches - pace.batches < kBatches)) return;
  if (going) {
    const double busy_s = Seconds(now - pace.since) - (waited_s - pace.waited_s);
    const double batch_s = busy_s / static_cast<double>(batches - pace.batches);
    if (std::isfinite(batch_s) && batch_s > 0) {
      pace.batch_s = pace.batch_s > 0 ? (pace.batch_s + batch_s) / 2 : batch_s;
      measured_ = true;
    }
  }
  pace.since = now;
  pace.batches = batches;
  pace.waited_s = std::isfinite(waited_s) ? waited_s : 0;
}

void LaneShares::Choose(uint32_t width) {
  if (!std::exchange(measured_, false) || width <= workers_.size()) return;
  std::vector<double> batch_s;
  std::vector<uint32_t> counts;
  for (uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const auto pace = paces_.find(workers_[rank]);
    if (pace == paces_.end() || pace->second.batch_s <= 0) return;
    batch_s.push_back(pace->second.batch_s);
    const auto [begin, end] = LanesOf(rank, width);
    counts.push_back(end - begin);
  }
  if (batch_s.empty()) return;
  const std::vector<uint32_t> fastest = Fastest(width, batch_s);
  if (StepTime(batch_s, fastest) > kWorthIt * StepTime(batch_s, counts)) return;
  ends_.clear();
  for (const uint32_t count : fastest) ends_.push_back(count + (ends_.empty() ? 0 : ends_.back()));
}

double LaneShares::StepTime(const std::vector<double>& batch_s, const std::vector<uint32_t>& counts) const {
  double longest = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank)
    longest = std::max(longest, counts[rank] * batch_s[rank]);
  return longest;
}

std::pair<uint32_t, uint32_t> LaneShares::LanesOf(uint32_t rank, uint32_t width) const {
  if (!even(width)) return {rank == 0 ? 0 : ends_[rank - 1], ends_[rank]};
  const uint64_t workers = workers_.size();
  const auto from = [&](uint64_t r) { return static_cast<uint32_t>((r * width + workers - 1) / workers); };
  return {from(rank), from(uint64_t{rank} + 1)};
}

std::pair<uint32_t, uint32_t> LaneShares::CountOf(uint32_t rank, uint32_t width) const {
  const auto [begin, end] = LanesOf(rank, width);
  if (!even(width)) return {end - begin, end - begin};
  const auto workers = static_cast<uint32_t>(workers_.size());
  return {width / workers, (width + workers - 1) / workers};
}

std::optional<RoundMade> MakeRound(const StrategyConfig& strategy, const CutRules& rules, uint64_t first_step,
                                   const RoundInput& material) {
  RoundMade round;
  round.first_step = first_step;
  round.lanes = Maker(strategy, rules, material).Make();
  if (round.lanes.empty()) return std::nullopt;
  round.needed = std::min(std::max(strategy.lanes, 1u), static_cast<uint32_t>(round.lanes.size()));
  return round;
}

// ---- the sequence

uint32_t RoundSequence::Round::ShareOf(NodeId worker) const {
  const auto at = shares.find(worker);
  return at == shares.end() ? 0 : at->second;
}

void RoundSequence::Restore(const std::vector<Position>& watermark, uint64_t step, std::vector<Cut> cuts,
                            const std::vector<RoundMade>& rounds) {
  for (const Cut& cut : cursors_->Restore(watermark, std::move(cuts))) cuts_[KeyOf(cut)] = cut;
  for (const RoundMade& made : rounds) {
    auto over = rounds_.lower_bound(made.first_step);
    if (over != rounds_.begin() && End(*std::prev(over)) > made.first_step) --over;
    rounds_.erase(over, rounds_.end());
    Enter(Time(0), made);
  }
  while (!rounds_.empty() && End(*rounds_.begin()) <= step) rounds_.erase(rounds_.begin());
}

void RoundSequence::Rollback(uint64_t step) {
  left_.clear();
  version_ = step;
  for (auto& [first_step, round] : rounds_) {
    round.touched = false;
    round.shares.clear();
  }
}

// True if no slice has more of the rounds than the steps before its version.
bool RoundSequence::Fits(const SliceProgress& slices) const {
  uint64_t step = version_;
  for (const auto& round : rounds_) {
    if (End(round) <= version_) continue;  // for an older step
    if (round.first > step) return false;
    step = End(round);
    for (const Lane& lane : round.second.lanes) {
      const RunSet missing = slices.Missing(lane.cut);
      bool lacks = true;
      ForEachRun(round.first, lane.assigned, [&](uint32_t run, uint64_t at_step) {
        if (at_step >= version_ && !missing.Has(run)) lacks = false;
      });
      if (!lacks) return false;
    }
  }
  return true;
}

// True if not all lanes of a round that is not over count.
bool RoundSequence::NeedsBackup() const {
  return std::ranges::any_of(rounds_, [this](const auto& round) {
    return End(round) > version_ && round.second.needed < round.second.lanes.size();
  });
}

// True if a run is in two rounds that are not over: the second has been made for runs that were late in the
// first, before a rollback.
bool RoundSequence::AssignsTwice() const {
  std::map<CutKey, RunSet> assigned;
  for (const auto& round : rounds_) {
    if (End(round) <= version_) continue;
    for (const Lane& lane : round.second.lanes) {
      auto [known, fresh] = assigned.try_emplace(KeyOf(lane.cut), lane.assigned);
      if (fresh) continue;
      RunSet both = known->second;
      if (!(both &= lane.assigned).empty()) return true;
      known->second |= lane.assigned;
    }
  }
  return false;
}

bool RoundSequence::Resume(const SliceProgress& slices, bool kept) {
  version_ = slices.Version();
  const bool usable = Fits(slices) && !(kept ? AssignsTwice() : NeedsBackup());
  if (!usable) rounds_.clear();
  next_step_ = rounds_.empty() ? version_ : End(*std::prev(rounds_.end()));
  version_ = std::min(version_, next_step_);
  return usable;
}

void RoundSequence::FindLeftovers(Time now, const SliceProgress& slices) {
  std::map<CutKey, RunSet> assigned;
  for (const auto& round : rounds_) {
    if (End(round) <= version_) continue;
    for (const Lane& lane : round.second.lanes) {
      auto [at, fresh] = assigned.try_emplace(KeyOf(lane.cut), lane.assigned);
      if (!fresh) at->second |= lane.assigned;
    }
  }
  left_.clear();
  left_since_ = now;
  for (const auto& [key, cut] : cuts_) {
    RunSet runs = slices.Missing(cut);
    if (const auto at = assigned.find(key); at != assigned.end()) runs &= at->second.Complement();
    AddLeftover(now, cut, runs);
  }
}

void RoundSequence::AddLeftover(Time now, const Cut& cut, const RunSet& runs) {
  if (runs.empty()) return;
  if (left_.empty()) left_since_ = now;
  auto [left, fresh] = left_.try_emplace(cursors_->KeyOf(cut), Leftover{cut, runs});
  if (!fresh) left->second.runs |= runs;
}

RoundSequence::Rounds::iterator RoundSequence::FirstOpen() {
  auto at = rounds_.upper_bound(version_);
  if (at != rounds_.begin() && End(*std::prev(at)) > version_) --at;
  return at;
}

uint64_t RoundSequence::OpenLimit() {
  // Released lanes count as trained, although no server has reported them yet.
  const auto ended = [](const auto& round) { return std::ranges::all_of(round.second.lanes, &Lane::ended); };
  const auto first = std::find_if_not(FirstOpen(), rounds_.end(), ended);
  const uint64_t base = first == rounds_.end() ? next_step_ : first->first;
  const CutRules& rules = cursors_->rules();
  const uint64_t full = std::min(rules.split_batches, Cut::kMaxBatches) / std::max(1u, rules.run);
  return base + std::max({2 * full, uint64_t{2}, open_steps_}) + strategy_.ahead();
}

void RoundSequence::Enter(Time now, const RoundMade& made) {
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

std::optional<RoundMade> RoundSequence::Make(Time now) {
  if (!cursors_->started() || !cursors_->Known()) return std::nullopt;
  if (full() || (left_.empty() && cursors_->Exhausted())) return std::nullopt;

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
  strategy.lanes = lanes();
  auto made = MakeRound(strategy, cursors_->rules(), next_step_, material);
  if (!made) return std::nullopt;

  for (const RoundMade::Lane& lane : made->lanes) {
    if (const auto left = left_.find(cursors_->KeyOf(lane.cut)); left != left_.end()) {
      left->second.runs &= lane.assigned.Complement();
      if (left->second.runs.empty()) left_.erase(left);
    } else if (cuts_.try_emplace(KeyOf(lane.cut), lane.cut).second) {
      cursors_->Advance(now, lane.cut);
    }
  }
  Enter(now, *made);
  next_step_ = End(*rounds_.find(made->first_step));
  ++made_;
  return made;
}

void RoundSequence::MakeAnew(Time now, const LanesSet& set) {
  for (auto at = rounds_.lower_bound(set.first_step); at != rounds_.end(); at = rounds_.erase(at)) {
    for (const Lane& lane : at->second.lanes) AddLeftover(now, lane.cut, lane.assigned);
  }
  next_step_ = set.first_step;
  lanes_.Set(set);
}

void RoundSequence::Close(Time now, const Round& round, const SliceProgress& slices) {
  for (const Lane& lane : round.lanes) {
    RunSet late = slices.Missing(lane.cut);
    late &= lane.assigned;
    late_ += late.count();
    AddLeftover(now, lane.cut, late);
  }
}

void RoundSequence::DropBefore(const std::vector<Position>& watermark, uint64_t step) {
  lanes_.DropBefore(rounds_.empty() ? step : std::min(step, rounds_.begin()->first));
  std::erase_if(cuts_,
                [&](const auto& entry) { return entry.second.next() <= watermark[entry.second.partition]; });
}

std::vector<Cut> RoundSequence::Open(const std::vector<Position>& watermark) const {
  std::vector<Cut> open;
  for (const auto& [key, cut] : cuts_) {
    if (cut.next() > watermark[cut.partition]) open.push_back(cut);
  }
  return open;
}

uint64_t RoundSequence::Untouched() const {
  uint64_t step = version_;
  for (const auto& round : rounds_) {
    if (round.second.touched || round.first < version_) step = std::max(step, End(round));
  }
  return step;
}

float RoundSequence::RateOf(const Rounds::value_type& round) const {
  float rate = 1;
  for (const Lane& lane : round.second.lanes) rate = std::max(rate, cursors_->rates().Of(lane.cut));
  return std::min(rate * lanes_.RateAt(round.first), kMaxRate);
}

RunSet RoundSequence::Wanted(const Lane& lane, const SliceProgress& slices,
                             std::optional<uint64_t> end) const {
  const RunSet missing = slices.Missing(lane.cut);
  RunSet wanted(missing.size());
  ForEachRun(lane.key.first, lane.assigned, [&](uint32_t run, uint64_t step) {
    if (step >= version_ && (!end || step < *end) && missing.Has(run)) wanted.Add(run);
  });
  return wanted;
}

}  // namespace leat::protocol
