// The rounds of stepped strategies: the rounds from the newest durable step on, the leases of their lanes,
// and late runs.
//
// A round is open until every slice has all its steps. In addition to the rounds whose lanes have all been
// released, two rounds of full length, or as many steps in shorter ones, are open, so that workers read ahead
// and do not wait for the servers' reports. Lanes are leased individually, evenly by the rank of the workers.
// If a worker is lost or does not request its lane, the lane goes to the others. If its lease is overdue
// (lease_pace.h), the lane is leased a second time, and the first result counts.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/leases/lease_book.h"
#include "protocol/leases/partition_cursors.h"
#include "protocol/leases/rounds/lane_count.h"
#include "protocol/leases/rounds/lane_shares.h"
#include "protocol/leases/rounds/rounds.h"

namespace leat::protocol {

class RoundQueue final : public LeaseBook {
 public:
  // `open_steps`: the minimum number of steps in open rounds.
  RoundQueue(PartitionCursors* cursors, const StrategyConfig& strategy, uint32_t open_steps,
             Duration lane_wait, Duration tail_wait, const LeaseLimits& limits = {})
      : LeaseBook(limits),
        cursors_(cursors),
        strategy_(strategy),
        open_steps_(open_steps),
        lane_wait_(lane_wait),
        tail_wait_(tail_wait),
        lanes_(strategy) {}

  // ---- recovery. After each of these, nothing is made or granted before Reconsider.
  // A journaled number of lanes; in journal order, before Restore.
  void RestoreLanes(const LanesSet& set) { lanes_.Set(set); }
  // Restores the journaled cuts from `watermark` on and the rounds in journal order, where a later round
  // replaces all that have steps after its first. Rounds from `step` on are trained again unchanged. Throws
  // std::invalid_argument if the cuts contradict each other.
  void Restore(const std::vector<Position>& watermark, uint64_t step, std::vector<Cut> cuts,
               std::vector<RoundMade> rounds);
  // All slices return to this step. All leases become void.
  void Rollback(uint64_t step);
  // All slices are live and at one step. With backup workers, timing decided what a round trained, so its
  // rounds cannot be repeated: runs that slices lack become leftovers for new rounds. If no slice has gone
  // back, because another coordinator or the replica of a slice has taken over, the rounds go on: some slices
  // may have recorded the runs of a step that others have not.
  void Reconsider(Time now, const SliceProgress& slices) override;

  // The slices are as the former coordinator has left them.
  void KeepRestoredRounds() { keep_restored_ = true; }

  // ---- workers of a former coordinator. Until EndAwait, no worker gets lanes that another one has not
  // claimed in time.
  void Await() override;
  void Adopt(Time now, NodeId worker, const LeaseClaim& claim) override;
  void EndAwait(Time now, const HeartbeatCounts& heartbeat_counts) override;

  // ---- rounds
  // The workers that take lanes, by rank.
  void SetWorkers(const std::map<uint32_t, NodeId>& workers);
  // The next round, if another may be open and there is material for it. Journal it before calling Grant.
  std::optional<RoundMade> Make(Time now);
  std::vector<Cut> Open(const std::vector<Position>& watermark) const override;
  // Forgets what lies before a durable step and its watermark: no Rollback goes further back.
  void DropBefore(const std::vector<Position>& watermark, uint64_t step);
  // The lowest known step such that no run of it or of a later step was leased.
  uint64_t Untouched() const;
  // Suspends leases of rounds from this step on.
  void Hold(uint64_t step) { hold_from_ = step; }
  bool held() const { return hold_from_.has_value(); }
  void LiftHold(Time now);
  // Until Continue no round is made, and no round from this step on is leased. Earlier rounds may be half
  // done. After a Rollback, that is none.
  void Pause(uint64_t step) { paused_from_ = step; }
  std::optional<uint64_t> paused_from() const { return paused_from_; }
  void Continue(Time now);
  // Stops for good before this step: no more leases of it or later steps, and no new rounds.
  void StopAt(Time now, uint64_t step);

  // All-reduce: the open rounds with steps from `from` on. Without `include_unleased`, only those announced
  // or leased before. They count as touched from now on.
  std::vector<protocol::Round> RoundsFrom(uint64_t from, bool include_unleased);

  // ---- lanes: auto. The number of lanes follows the workers (lane_count.h).
  // Call it often, and before Make. Returns a new number, to be journaled before the next round. With
  // `may_take_back`, it may begin to take rounds back instead: all their leases are void, and none is made or
  // leased before Remake or AbandonTakeBack.
  std::optional<LanesSet> FollowWorkers(Time now, bool may_take_back);
  // The first step of the rounds that are being taken back.
  std::optional<uint64_t> taken_back_from() const {
    return take_back_ ? std::optional(take_back_->from) : std::nullopt;
  }
  // No push for these rounds was taken, and none will be: they are made anew. The number is to be journaled.
  LanesSet Remake(Time now);
  // They are leased as they are.
  void AbandonTakeBack(Time now);
  uint32_t lanes() const { return lanes_.At(next_step_); }

  // ---- leases
  uint64_t made() const { return made_; }
  uint64_t late() const { return late_; }  // runs that missed their step
  // sync and averaging: faster workers get more lanes (lane_shares.h).
  void OnProgress(Time now, NodeId worker, const WorkerProgress& progress) {
    shares_.OnProgress(now, worker, progress.steps, progress.wait_seconds + progress.input_wait_seconds);
  }
  // A lane for the worker, if one is available to it.
  std::optional<Lease> Grant(Time now, NodeId worker, const SliceProgress& slices,
                             const std::function<uint64_t()>& next_id);
  void Reclaim(Time now, NodeId worker) override;
  // Rounds may be complete, and released lanes trained or free.
  void OnServerReport(Time now, const SliceProgress& slices,
                      const HeartbeatCounts& heartbeat_counts) override;

 private:
  using LaneKey = std::pair<uint64_t, uint32_t>;  // the first step of the round, and the lane in it
  struct Lane : Item {
    LaneKey key;
    RunSet assigned;
    NodeId released_by;
    Time free_since{0};
  };
  struct Round {
    uint32_t length = 0;
    uint32_t needed = 1;
    bool touched = false;  // some of it was leased in this term
    std::vector<Lane> lanes;
    std::set<uint32_t> free;            // lanes
    std::map<NodeId, uint32_t> shares;  // lanes assigned to each worker, including completed ones
  };
  struct TakeBack {
    uint64_t from = 0;   // a round begins with this step
    uint32_t lanes = 1;  // lanes of the rounds that are made instead
  };
  using Rounds = std::map<uint64_t, Round>;  // by first step

  uint64_t End(Rounds::const_iterator round) const { return round->first + round->second.length; }
  Rounds::iterator FirstOpen();
  uint64_t OpenLimit();  // open rounds begin before this step
  // Rounds from this step on are not leased now.
  bool Suspended(uint64_t first_step) const {
    return (hold_from_ && first_step >= *hold_from_) || (paused_from_ && first_step >= *paused_from_);
  }
  Round& RoundOf(const Lane& lane) { return rounds_.at(lane.key.first); }
  void Enter(Time now, const RoundMade& made);
  bool Replays(const SliceProgress& slices) const;
  bool Fits(const SliceProgress& slices) const;
  bool AssignsTwice() const;
  // It is not known yet whether a worker of the former coordinator holds or has trained the lane. A worker
  // that got a later one before it would have to interrupt that for it.
  static bool Unsettled(const Lane& lane) {
    return lane.stage == Stage::kAwaited || (lane.stage == Stage::kReleased && lane.released_by == NodeId());
  }
  bool TakeBackRounds(Time now, uint32_t lanes);
  static void TakeShare(Round* round, NodeId worker);
  void Free(Time now, Item* item) override;
  void OnDropped(Item* item, NodeId worker) override;
  void OnReleased(Item* item, NodeId worker) override;
  void WaitAnew(Time now, uint64_t from);  // free lanes from this step on are for their workers first
  void Finish(Lane* lane);
  void Close(Time now, Rounds::iterator round, const SliceProgress& slices);
  float RateOf(uint64_t first_step, const Round& round) const;
  // The lane's runs that its worker still has to train.
  RunSet Wanted(const Lane& lane, const SliceProgress& slices) const;
  Lane* LaneFor(Time now, NodeId worker, Round* round);
  static uint32_t ShareOf(const Round& round, NodeId worker);
  bool MayTake(const Round& round, const Lane& lane, uint64_t has) const;
  Lane* TakeLane(Lane* lane);

  PartitionCursors* cursors_;
  StrategyConfig strategy_;
  uint64_t open_steps_;
  Duration lane_wait_, tail_wait_;

  std::map<std::pair<uint32_t, Position>, Cut> cuts_;  // by partition and begin
  Rounds rounds_;
  std::map<PartitionCursors::Key, Leftover> left_;
  Time left_since_{0};
  uint64_t next_step_ = 0;      // first step of the next round
  uint64_t version_ = 0;        // version that all slices have reached
  bool settled_ = false;        // Reconsider has been called
  bool keep_restored_ = false;  // no slice has gone back since the rounds were made

  LaneCount lanes_;
  std::optional<TakeBack> take_back_;
  std::optional<uint32_t> gave_up_;  // the number of lanes for which rounds could not be taken back
  std::map<NodeId, uint32_t> ranks_;
  LaneShares shares_;
  std::set<LaneKey> released_;
  std::optional<uint64_t> hold_from_, paused_from_, stop_at_;
  uint64_t made_ = 0, late_ = 0;
};

}  // namespace leat::protocol
