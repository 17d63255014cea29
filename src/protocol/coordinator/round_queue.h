// The coordinator's rounds in stepped strategies: those from the newest durable step on, who trains which
// lane of them, and what is left over.
//
// A round is open until every slice has all its steps. Two of full length, or as many steps in shorter ones,
// are open at a time beside those that workers have ended all lanes of, so that they read ahead and do not
// wait until servers have reported what they have done. A lane is leased by itself; each worker has its even
// share of them, those of its rank, and the lane of one who is gone, or does not come for it, goes to the
// others.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/coordinator/heartbeat_counts.h"
#include "protocol/coordinator/partition_cursors.h"
#include "protocol/coordinator/rounds.h"
#include "protocol/coordinator/slice_map.h"

namespace leat::protocol {

class RoundQueue {
 public:
  // `open_steps`: of rounds that are open at a time at the least, however short these are.
  RoundQueue(PartitionCursors* cursors, const StrategyConfig& strategy, uint32_t open_steps,
             Duration lane_wait, Duration tail_wait)
      : cursors_(cursors),
        strategy_(strategy),
        open_steps_(open_steps),
        lane_wait_(lane_wait),
        tail_wait_(tail_wait) {}

  // ---- lives. After each of these nothing is made or granted before Reconsider.
  // From a former life: the cuts from `watermark` on, and the rounds in the order of the journal, where a
  // later one takes the place of all that have steps behind its first. Those from `step` on are trained
  // again as they were. Throws std::invalid_argument when the cuts contradict each other.
  void Restore(const std::vector<Position>& watermark, uint64_t step, std::vector<Cut> cuts,
               std::vector<RoundMade> rounds);
  // All slices return to this step. Every lease is void.
  void Rollback(uint64_t step);
  // All slices are live, and of one step. Where who is in time decides what a round trains, its rounds
  // cannot be trained as they were: what slices lack of them is left over, for rounds made anew.
  void Reconsider(Time now, const SliceMap& slices);

  // ---- rounds
  // Workers by rank.
  void SetWorkers(const std::map<uint32_t, NodeId>& workers);
  // The next round, when one more may be open and there is something to make it of. It is to be journaled
  // before Grant is called.
  std::optional<RoundMade> Make(Time now);
  // Cuts made, and not all before the watermark.
  std::vector<Cut> Open(const std::vector<Position>& watermark) const;
  // Nothing will ever be asked of what lies before a durable step and its watermark.
  void DropBefore(const std::vector<Position>& watermark, uint64_t step);
  // A step that no run was leased of, nor of any behind it, as near as can be.
  uint64_t Untouched() const;
  // Rounds from this step on are not leased at present.
  void Hold(uint64_t step) { hold_from_ = step; }
  bool held() const { return hold_from_.has_value(); }
  void LiftHold(Time now);
  // No run of this step or a later one is leased any more, and no round made.
  void StopAt(Time now, uint64_t step);

  // Where every worker goes through all lanes: the rounds that have steps from this one on, of those that are
  // open; `include_unleased`: not only what was told or leased before. They count as touched from now on.
  std::vector<protocol::Round> RoundsFrom(uint64_t from, bool include_unleased);

  // ---- leases
  size_t leased() const { return leases_.size(); }
  uint64_t regranted() const { return regranted_; }
  uint64_t made() const { return made_; }
  uint64_t late() const { return late_; }  // runs that were not in time for their step
  // A lane for the worker, if there is one that it may have.
  std::optional<Lease> Grant(Time now, NodeId worker, const SliceMap& slices,
                             const std::function<uint64_t()>& next_id);
  // The worker says that it has ended the lease: leased again if the slices, as of heartbeats that servers
  // have surely made after that, still lack some of it.
  void Release(uint64_t id, NodeId worker, const HeartbeatCounts& heartbeat_counts);
  // Leases of the worker that are not in `held` never reached it: free at once. Those in `held` that are not
  // its own come back, to be revoked.
  std::vector<uint64_t> Reconcile(Time now, NodeId worker, std::vector<uint64_t> held);
  // The worker is gone: all its lanes are free.
  void Reclaim(Time now, NodeId worker);
  // A server has reported: rounds may be over, and released lanes trained or free.
  void OnServerReport(Time now, const SliceMap& slices, const HeartbeatCounts& heartbeat_counts);

 private:
  enum class Stage : uint8_t { kFree, kLeased, kReleased, kDone };
  struct Lane {
    Cut cut;
    RunSet assigned;
    Stage stage = Stage::kFree;
    bool granted = false;  // before, in this life
    uint64_t lease = 0;
    NodeId worker;
    Time free_since{0};
    HeartbeatCounts released_at;
  };
  struct Round {
    uint32_t length = 0;
    uint32_t needed = 1;
    bool touched = false;  // something of it was leased in this life
    std::vector<Lane> parts;
    std::set<uint32_t> free;            // lanes
    std::map<NodeId, uint32_t> shares;  // lanes that each worker has, or had until they were done
  };
  using Rounds = std::map<uint64_t, Round>;  // by first step
  using LaneKey = std::pair<uint64_t, uint32_t>;

  uint64_t End(Rounds::const_iterator round) const { return round->first + round->second.length; }
  Rounds::iterator FirstOpen();
  uint64_t OpenLimit();  // rounds begin before this step, if they are open
  void Enter(Time now, const RoundMade& made);
  bool Replays(const SliceMap& slices) const;
  void Free(Time now, LaneKey place);
  void Drop(uint64_t lease);
  void Close(Time now, Rounds::iterator round, const SliceMap& slices);
  // The part's runs that are still wanted of whoever trains it.
  RunSet Wanted(uint64_t first_step, const Lane& part, const SliceMap& slices) const;
  std::optional<uint32_t> LaneFor(Time now, NodeId worker, Round* round);

  PartitionCursors* cursors_;
  StrategyConfig strategy_;
  uint64_t open_steps_;
  Duration lane_wait_, tail_wait_;

  std::map<std::pair<uint32_t, Position>, Cut> cuts_;  // by partition and begin
  Rounds rounds_;
  std::map<PartitionCursors::Key, Leftover> left_;
  Time left_since_{0};
  uint64_t next_step_ = 0;  // of the next round
  uint64_t version_ = 0;    // that all slices have
  bool settled_ = false;    // Reconsider has been asked

  std::map<NodeId, uint32_t> ranks_;
  std::map<uint64_t, LaneKey> leases_;
  std::map<NodeId, std::set<uint64_t>> workers_;  // leases of each
  std::set<LaneKey> released_;
  std::optional<uint64_t> hold_from_, stop_at_;
  uint64_t regranted_ = 0, made_ = 0, late_ = 0;
};

}  // namespace leat::protocol
