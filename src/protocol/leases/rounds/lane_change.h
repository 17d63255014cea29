// lanes: auto. Rounds are made anew with another number of lanes while slices stay as they are.
//
// Invariant: nothing of the old rounds arrives after they were made anew. A step could otherwise have one run
// on one server, and another one on the next. Therefore:
//   1. Each worker has been told, and holds nothing of them. A worker that is gone may not know it.
//   2. Each server has a view without those that are gone, and ignores what they push (guards::IsMember).
//   3. Each server has reported since, and no slice was at a step at which it could have taken such a push.
// If one of these does not come about in time, the old rounds are leased as they are.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <map>
#include <optional>

#include "protocol/leases/rounds/round_queue.h"
#include "protocol/members/roster.h"
#include "protocol/slices/slice_map.h"

namespace leat::protocol {

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

}  // namespace leat::protocol
