// Rounds of stepped strategies: splits of equal length that are trained side by side, one per lane.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/leases/lease_book.h"
#include "protocol/leases/partition_cursors.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

// How many lanes the steps have.
//
// With `lanes: auto` the number follows the workers that take lanes, as soon as there have been as many for
// kStable: a worker that is replaced by then changes nothing. It holds from a step on, and is journaled with
// it, so that steps that are trained again have as many lanes as before, unless it changes before they are
// begun again.
class LaneCount {
 public:
  static constexpr Duration kStable = std::chrono::seconds(3);

  explicit LaneCount(const StrategyConfig& strategy) : strategy_(strategy) {}

  // Records are in the order of the journal: one replaces those from its step on.
  void Set(const LanesSet& set);
  // Without backup lanes.
  uint32_t At(uint64_t step) const;
  // The factor on the learning rate for scale_learning_rate: relative to the lanes that the job was created
  // with.
  float RateAt(uint64_t step) const;
  // Forgets what is before a step that no slice will fall behind.
  void DropBefore(uint64_t step);

  // There are `workers` now, and all slices have made `step` steps. Call it often.
  void Observe(Time now, uint32_t workers, uint64_t step);
  // The number that the rounds from `step` on are to have, if it is not known yet, or another one.
  std::optional<LanesSet> Next(Time now, uint64_t step) const;
  // Steps per second since there are as many workers as now.
  double Pace(Time now, uint64_t step) const;

 private:
  struct Seen {
    uint32_t workers = 0;
    Time since{0};
    uint64_t step = 0;  // then
  };

  StrategyConfig strategy_;
  std::map<uint64_t, uint32_t> lanes_;  // by first step
  std::optional<Seen> seen_;
};

// How many lanes of a step each worker has, and which.
//
// Shares are even until the workers' speeds are known. Then a worker that is faster than others has more
// lanes than they, if steps take a shorter time so, and each still has one. The result is the same whichever
// worker computes a lane.
class LaneShares {
 public:
  // A worker's speed is measured over at least this time and this many batches.
  static constexpr Duration kWindow = std::chrono::seconds(5);
  static constexpr uint64_t kBatches = 16;
  // Shares change if the slowest worker's part of a step takes at most this fraction of the time before.
  static constexpr double kWorthIt = 0.8;

  // The workers that take lanes, by rank.
  void SetWorkers(std::vector<NodeId> workers);
  size_t workers() const { return workers_.size(); }
  std::optional<uint32_t> RankOf(NodeId worker) const;  // none: it takes no lanes
  // Takes a worker's progress since it joined: batches, and the time in which it had none to compute.
  void OnProgress(Time now, NodeId worker, uint64_t batches, double waited_s);
  void Forget(NodeId worker) { paces_.erase(worker); }
  // Chooses the shares of steps of this width anew, if speeds have been measured since the last time.
  void Choose(uint32_t width);

  // The lanes of a worker: first to second.
  std::pair<uint32_t, uint32_t> LanesOf(uint32_t rank, uint32_t width) const;
  // Workers have as many lanes as others, or one more.
  bool even(uint32_t width) const { return ends_.empty() || ends_.back() != width; }
  // The fewest and the most lanes that it should have.
  std::pair<uint32_t, uint32_t> CountOf(uint32_t rank, uint32_t width) const;

 private:
  struct Pace {
    Time since{0};
    uint64_t batches = 0;  // then
    double waited_s = 0;   // then
    double batch_s = 0;    // 0: unknown
  };

  // The time of a step of the slowest worker.
  double StepTime(const std::vector<double>& batch_s, const std::vector<uint32_t>& counts) const;

  std::vector<NodeId> workers_;
  std::map<NodeId, uint32_t> ranks_;
  std::map<NodeId, Pace> paces_;
  std::vector<uint32_t> ends_;  // chosen: the end of each worker's lanes; empty: even shares
  bool measured_ = false;       // since Choose
};

// Late runs of a cut: they missed their step in a former round.
struct Leftover {
  Cut cut;
  RunSet runs;
};

// The material for a round.
struct RoundInput {
  struct Partition {
    Position at;  // the next cut begins here
    const Passes* passes = nullptr;
    uint64_t end = 0;
    bool sealed = false;
    bool overdue = false;  // not sealed: the available events have waited long enough to be cut short
  };
  std::vector<Leftover> left;         // in the order of use
  std::vector<Partition> partitions;  // partitions of the stream, by number
  bool drain = false;                 // use the rest of a live stream, although it makes no full round
};

// The round that begins with `first_step`. It has as many lanes as `strategy`, each with the runs of a full
// split or, if not all lanes can be full, the largest equal number. Leftovers come first, then the least
// advanced partition. Material for less than one run per lane makes a round of one step with fewer lanes.
// None if there is nothing, or if a live stream should be waited for.
//
// A pure function of the stream, its cursors and the leftovers. For a sealed stream the sequence of rounds is
// therefore independent of timing and the number of workers.
std::optional<RoundMade> MakeRound(const StrategyConfig& strategy, const CutRules& rules, uint64_t first_step,
                                   const RoundInput& material);

// The rounds from the newest durable step on, and what the next ones are made of: the stream, and late runs.
//
// A round is open until every slice has all its steps. In addition to the rounds whose lanes have all been
// released, two rounds of full length, or as many steps in shorter ones, are open, so that workers read ahead
// and do not wait for the servers' reports.
//
// Pure state, part of the coordinator. Not thread-safe.
class RoundSequence {
 public:
  using LaneKey = std::pair<uint64_t, uint32_t>;  // the first step of the round, and the lane in it
  struct Lane : LeaseItem {
    LaneKey key;
    RunSet assigned;
    Time free_since{0};
    bool ended() const { return stage == Stage::kReleased || stage == Stage::kDone; }
    // It is not known yet whether a worker of the former coordinator holds or has trained the lane. A worker
    // that got a later one before it would have to interrupt that for it.
    bool unsettled() const {
      return stage == Stage::kAwaited || (stage == Stage::kReleased && released_by == NodeId());
    }
  };
  struct Round {
    uint32_t length = 0;
    uint32_t needed = 1;
    bool touched = false;  // some of it was leased in this term
    std::vector<Lane> lanes;
    std::set<uint32_t> free;            // lanes
    std::map<NodeId, uint32_t> shares;  // lanes assigned to each worker, including completed ones
    uint32_t ShareOf(NodeId worker) const;
  };
  using Rounds = std::map<uint64_t, Round>;  // by first step

  // `open_steps`: the minimum number of steps in open rounds.
  RoundSequence(PartitionCursors* cursors, const StrategyConfig& strategy, uint32_t open_steps,
                Duration tail_wait)
      : cursors_(cursors),
        strategy_(strategy),
        open_steps_(open_steps),
        tail_wait_(tail_wait),
        lanes_(strategy) {}

  Rounds& all() { return rounds_; }
  const Rounds& all() const { return rounds_; }
  Round& RoundOf(const Lane& lane) { return rounds_.at(lane.key.first); }
  static uint64_t End(const Rounds::value_type& round) { return round.first + round.second.length; }
  uint64_t version() const { return version_; }      // reached by all slices
  uint64_t next_step() const { return next_step_; }  // first step of the next round
  LaneCount& lane_count() { return lanes_; }
  uint32_t lanes() const { return lanes_.At(next_step_); }  // lanes of the next round
  uint64_t made() const { return made_; }
  uint64_t late() const { return late_; }  // runs that missed their step

  // As RoundQueue::Restore.
  void Restore(const std::vector<Position>& watermark, uint64_t step, std::vector<Cut> cuts,
               const std::vector<RoundMade>& rounds);
  void Rollback(uint64_t step);
  // The slices' version is theirs from now on. False: the rounds cannot go on, and are forgotten. `kept`: no
  // slice has gone back since they were made; otherwise they can go on only if the same runs can be trained
  // again in the same steps.
  bool Resume(const SliceProgress& slices, bool kept);
  // Every run that slices lack and no round has is a leftover.
  void FindLeftovers(Time now, const SliceProgress& slices);

  // The next round, if another may be open and there is material for it.
  std::optional<RoundMade> Make(Time now);
  bool full() { return next_step_ >= OpenLimit(); }  // no other round may be open
  // Rounds from this step on are made anew: their runs are leftovers.
  void MakeAnew(Time now, const LanesSet& set);
  // Every slice has this version.
  void Reach(uint64_t version) { version_ = std::max(version_, std::min(version, next_step_)); }
  // Runs of a round that is over and that no ledger has become leftovers.
  void Close(Time now, const Round& round, const SliceProgress& slices);
  // As RoundQueue::DropBefore. The rounds before the step, and before the slices' version, are the caller's.
  void DropBefore(const std::vector<Position>& watermark, uint64_t step);
  std::vector<Cut> Open(const std::vector<Position>& watermark) const;

  Rounds::iterator FirstOpen();
  uint64_t OpenLimit();  // open rounds begin before this step
  // The lowest known step such that no run of it or of a later step was leased.
  uint64_t Untouched() const;
  // All lanes have one rate, because a step is one update.
  float RateOf(const Rounds::value_type& round) const;
  // The lane's runs that slices lack, of steps from the slices' version on and before `end`.
  RunSet Wanted(const Lane& lane, const SliceProgress& slices, std::optional<uint64_t> end) const;
  std::optional<LabelRange> LabelsOf(const Lane& lane) const { return cursors_->LabelsOf(lane.cut); }

 private:
  using CutKey = std::pair<uint32_t, Position>;  // partition and begin
  static CutKey KeyOf(const Cut& cut) { return {cut.partition, cut.begin}; }
  void Enter(Time now, const RoundMade& made);
  void AddLeftover(Time now, const Cut& cut, const RunSet& runs);
  bool Fits(const SliceProgress& slices) const;
  bool NeedsBackup() const;
  bool AssignsTwice() const;

  PartitionCursors* cursors_;
  StrategyConfig strategy_;
  uint64_t open_steps_;
  Duration tail_wait_;
  std::map<CutKey, Cut> cuts_;
  Rounds rounds_;
  std::map<PartitionCursors::Key, Leftover> left_;
  Time left_since_{0};
  uint64_t next_step_ = 0, version_ = 0;
  LaneCount lanes_;
  uint64_t made_ = 0, late_ = 0;
};

}  // namespace leat::protocol
