// The coordinator's half of the leases: the stream, its cuts, and which worker trains what. In stepped
// strategies workers lease lanes of rounds, in the others splits; all-reduce makes rounds, and leases none.
//
// Invariants:
// - A cut, round, mark of labels or raise of the rate is journaled before it is leased or has an effect.
// - Nothing is leased before all slices are live, while the job is paused, or beyond what the caller allows.
// - Once the job ends, only runs that some slices have and others lack are leased.
//
// Methods that make cuts return them, for those who follow the stream (predictions).
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "protocol/leases/lease_settings.h"
#include "protocol/leases/rounds/round_queue.h"
#include "protocol/leases/split_queue.h"
#include "protocol/members/roster.h"
#include "protocol/slices/slice_map.h"

namespace leat::protocol {

// lanes: auto. Rounds are made anew with another number of lanes while slices stay as they are.
//
// Invariant: nothing of the old rounds arrives after they were made anew. A step could otherwise have one run
// on one server, and another one on the next. Therefore:
//   1. Each worker has been told, and holds nothing of them. A worker that is gone may not know it.
//   2. Each server has a view without those that are gone, and ignores what they push (guards::IsMember).
//   3. Each server has reported since, and no slice was at a step at which it could have taken such a push.
// If one of these does not come about in time, the old rounds are leased as they are.
class LaneChange {
 public:
  LaneChange(RoundQueue* rounds, const SliceProgress* slices, const Roster* roster, Outbox* outbox)
      : rounds_(*rounds), slices_(*slices), roster_(*roster), outbox_(*outbox) {}

  // Lets the number of lanes follow the workers. Call it before rounds are made. `may_take_back`: rounds may
  // be taken back now, and the change that is under way may go on.
  void Advance(Time now, bool may_take_back);
  void Abandon(Time now);

  // A server has reported the highest version of its slices.
  void OnVersion(NodeId server, uint64_t version) { versions_[server] = version; }
  void Forget(NodeId server) { versions_.erase(server); }

 private:
  // The rounds that are being taken back.
  struct UnderWay {
    Time since{0};
    Generation told;                          // workers with this view know that their leases are void
    std::optional<Generation> without;        // the view without the workers that have not been told
    std::optional<HeartbeatCounts> reported;  // when all servers had this view
  };
  void AdvanceUnderWay(Time now);
  bool WorkersTold() const;
  bool ServersKnow() const;
  uint64_t HighestVersion() const;  // the highest of any slice on any server, as far as reported

  RoundQueue& rounds_;
  const SliceProgress& slices_;
  const Roster& roster_;
  Outbox& outbox_;
  std::optional<UnderWay> change_;
  std::map<NodeId, uint64_t> versions_;  // as servers have reported them
};

// Limits of what is leased now, as the concerns above know them.
struct LeasesAllowed {
  bool ending = false;   // the job ends: workers are to end their leases
  bool repairs = false;  // but lease what only some of the slices have trained
  bool paused = false;
  bool may_take_back = false;  // rounds may be made anew with other lanes: no checkpoint is being made
};

// From the journal and the checkpoint.
struct RestoredWork {
  std::vector<Cut> cuts;
  std::vector<RoundMade> rounds;
};

class Leases {
 public:
  // Throws std::invalid_argument if the settings contradict each other.
  Leases(const LeaseSettings& settings, Roster* roster, SliceMap* slices, Outbox* outbox);

  const LeaseLimits& limits() const { return limits_; }
  bool stepped() const { return roster_.settings().stepped(); }
  PartitionCursors& cursors() { return cursors_; }
  const PartitionCursors& cursors() const { return cursors_; }
  SplitQueue& splits() { return splits_; }
  RoundQueue& rounds() { return rounds_; }
  const RoundQueue& rounds() const { return rounds_; }
  // The queue from which workers lease; those of all-reduce jobs do not lease.
  LeaseBook& queue() { return stepped() ? static_cast<LeaseBook&>(rounds_) : splits_; }
  const LeaseBook& queue() const { return stepped() ? static_cast<const LeaseBook&>(rounds_) : splits_; }

  // ---- the stream
  void Start(const std::vector<Position>& first);
  void JournalPasses();  // as far as they are new
  // Returns why the job cannot go on.
  Status OnRange(Time now, const StreamRange& range);
  // Cuts that are already made keep their rate.
  void RaiseRate();

  // ---- from a former coordinator
  // Throws std::invalid_argument if the cuts contradict each other.
  void Restore(RestoredWork work);
  // Lower ids than those given from now on are of former terms.
  void BeginTerm() { first_id_ = outbox_.next_id(); }
  // Takes over its leases, if slices do not go back. `workers`: some of its workers are awaited.
  void TakeOver(bool slices_go_back, bool workers);
  // A worker has reached this coordinator with these leases of former ones.
  void Adopt(Time now, NodeId worker, const std::vector<LeaseClaim>& claims);

  // ---- heartbeats
  void OnHeartbeat(Time now, const WorkerHeartbeat& heartbeat);
  // Leases as much as the worker wants. Call it once the heartbeat's own leases have been reconciled.
  std::vector<Cut> Grant(Time now, const WorkerHeartbeat& heartbeat, const LeasesAllowed& allowed,
                         WorkerHeartbeatReply* reply);
  void OnServerHeartbeat(const ServerHeartbeat& heartbeat) {
    lane_change_.OnVersion(heartbeat.node, heartbeat.version);
  }
  // All slices have reported, or may report, a state as of now.
  void OnServerReport(Time now) { queue().OnServerReport(now, slices_, roster_.heartbeats()); }
  void Remove(Time now, NodeId node);  // a worker or server that is gone

  // ---- lanes
  void ShareLanes();  // among the workers that can take them
  std::vector<Cut> MakeRounds(Time now, bool may_take_back);
  void AbandonLaneChange(Time now) { lane_change_.Abandon(now); }
  // All slices go back to the source, which is one step for all of them.
  void RollBack() { rounds_.Rollback(slices_.Version()); }
  // Forgets what lies before a durable watermark and step.
  void DropBefore(const std::vector<Position>& watermark, uint64_t step);

  LeaseRows rows() const;

 private:
  std::vector<Cut> GrantSplits(Time now, NodeId worker, uint32_t wanted, std::vector<Lease>* leases);
  void LeaseRepairs(Time now, NodeId worker, uint32_t wanted, std::vector<Lease>* leases);
  std::vector<Cut> GrantLanes(Time now, NodeId worker, bool may_take_back, std::vector<Lease>* leases);

  const LeaseSettings& settings_;
  LeaseLimits limits_;
  Roster& roster_;
  SliceMap& slices_;
  Outbox& outbox_;
  PartitionCursors cursors_;
  SplitQueue splits_;  // if each split is trained separately
  RoundQueue rounds_;  // if splits are trained side by side
  LaneChange lane_change_;
  uint64_t first_id_ = 0;  // first id of this term; lower ones are of former terms
};

}  // namespace leat::protocol
