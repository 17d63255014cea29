// The leases of the lanes of rounds.
//
// Lanes are leased individually, evenly by the rank of the workers. If a worker is lost or does not request
// its lane, the lane goes to the others. If its lease is overdue, the lane is leased a second time, and the
// first result counts.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "protocol/leases/rounds/rounds.h"

namespace leat::protocol {

// Why no round from a step on is leased.
enum class Suspension : uint8_t {
  kCheckpoint,  // servers do not know yet that they are to save this step
  kPause,       // nor is any round made. Earlier ones may be half done; after a rollback, none is
  kLaneChange,  // the rounds are taken back, to be made with another number of lanes
};

class RoundQueue final : public LeaseBook {
 public:
  RoundQueue(PartitionCursors* cursors, const StrategyConfig& strategy, uint32_t open_steps,
             Duration lane_wait, Duration tail_wait, const LeaseLimits& limits = {})
      : LeaseBook(limits),
        strategy_(strategy),
        lane_wait_(lane_wait),
        rounds_(cursors, strategy, open_steps, tail_wait) {}

  const RoundSequence& sequence() const { return rounds_; }
  // sync and averaging: faster workers get more lanes.
  LaneShares& shares() { return shares_; }

  // ---- recovery. After each of these, nothing is made or granted before Reconsider.
  // A journaled number of lanes; in journal order, before Restore.
  void RestoreLanes(const LanesSet& set) { rounds_.lane_count().Set(set); }
  // Restores the journaled cuts from `watermark` on and the rounds in journal order, where a later round
  // replaces all that have steps after its first. Rounds from `step` on are trained again unchanged. Throws
  // std::invalid_argument if the cuts contradict each other.
  void Restore(const std::vector<Position>& watermark, uint64_t step, std::vector<Cut> cuts,
               const std::vector<RoundMade>& rounds);
  // All slices return to this step. All leases become void.
  void Rollback(uint64_t step);
  // All slices are live and at one step. With backup workers, timing decided what a round trained, so its
  // rounds cannot be repeated: runs that slices lack become leftovers for new rounds. If no slice has gone
  // back, because another coordinator or the replica of a slice has taken over, the rounds go on: some slices
  // may have recorded the runs of a step that others have not.
  void Reconsider(Time now, const SliceProgress& slices) override;
  // The slices are as the former coordinator has left them.
  void KeepRestoredRounds() { keep_restored_ = true; }
  // Until EndAwait, no worker gets lanes that another one has not claimed in time.
  void Await() override;
  void EndAwait(Time now, const HeartbeatCounts& heartbeat_counts) override;

  // ---- rounds
  // The next round, if another may be open and there is material for it. Journal it before calling Grant.
  std::optional<RoundMade> Make(Time now);
  std::vector<Cut> Open(const std::vector<Position>& watermark) const override {
    return rounds_.Open(watermark);
  }
  // Forgets what lies before a durable step and its watermark: no Rollback goes further back.
  void DropBefore(const std::vector<Position>& watermark, uint64_t step);
  void Suspend(Suspension why, uint64_t step) { From(why) = step; }
  std::optional<uint64_t> suspended_from(Suspension why) const {
    return suspended_[static_cast<size_t>(why)];
  }
  // Lanes that have been free are for their workers first.
  void Resume(Time now, Suspension why);
  // Stops for good before this step: no more leases of it or later steps, and no new rounds.
  void StopAt(Time now, uint64_t step);
  // All-reduce: the open rounds with steps from `from` on. Without `include_unleased`, only those announced
  // or leased before. They count as touched from now on.
  std::vector<protocol::Round> RoundsFrom(uint64_t from, bool include_unleased);

  // ---- lanes: auto. The number of lanes follows the workers.
  // Call it often, and before Make. Returns a new number, to be journaled before the next round. With
  // `may_take_back`, it may begin to take rounds back instead, so that slow steps need not come to the end of
  // all open rounds first: all their leases are void, and none is made or leased before Remake or Resume.
  std::optional<LanesSet> FollowWorkers(Time now, bool may_take_back);
  // No push for these rounds was taken, and none will be: they are made anew. The number is to be journaled.
  LanesSet Remake(Time now);

  // ---- leases
  // A lane for the worker, if one is available to it.
  std::optional<Lease> Grant(Time now, NodeId worker, const SliceProgress& slices,
                             const std::function<uint64_t()>& next_id);
  void Reclaim(Time now, NodeId worker) override;

 private:
  using Lane = RoundSequence::Lane;
  using Round = RoundSequence::Round;

  std::optional<uint64_t>& From(Suspension why) { return suspended_[static_cast<size_t>(why)]; }
  bool Suspended(uint64_t first_step) const;
  void ForEach(const std::function<void(Item&)>& visit) override;
  Item* Find(const LeaseClaim& claim) override;
  void Free(Time now, Item* item) override;
  void Unfree(const Item& item) override;
  void CountShare(const Item& item, NodeId worker, bool more) override;
  bool TakeProgress(Time now, const SliceProgress& slices) override;
  bool IsComplete(const Item& item, const SliceProgress& slices, bool reported) const override;
  bool TakeBack(Time now, uint32_t lanes);
  void WaitAnew(Time now, uint64_t from);  // free lanes from this step on are for their workers first
  Lane* LaneFor(Time now, NodeId worker, Round* round);
  bool MayTake(const Round& round, const Lane& lane, uint64_t has) const;
  Lane* TakeLane(Lane* lane);

  StrategyConfig strategy_;
  Duration lane_wait_;
  RoundSequence rounds_;
  LaneShares shares_;
  bool settled_ = false;        // Reconsider has been called
  bool keep_restored_ = false;  // no slice has gone back since the rounds were made
  std::array<std::optional<uint64_t>, 3> suspended_;
  std::optional<uint64_t> stop_at_;
  uint32_t lanes_wanted_ = 0;        // lanes of the rounds that are taken back
  std::optional<uint32_t> gave_up_;  // the number of lanes for which rounds could not be taken back
};

}  // namespace leat::protocol
