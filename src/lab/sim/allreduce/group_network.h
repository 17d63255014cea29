// The network of all-reduce groups: connections among their members, as protocol::PeerConnections decides,
// and reductions of buckets, whose pieces go from member to member as protocol::Reduction decides.
//
// A failed connection ends the group for both members. Each closes its connections, so the others notice;
// messages of a closed connection are dropped. All members of a group start the same buckets in the same
// order. A piece of a bucket that has not started here waits; an invalid one breaks the group. A message
// occupies one slot of a slab until it is taken or dropped; it goes to a process of one incarnation, and is
// dropped if that is gone.
#pragma once

#include "lab/sim/allreduce/group_parts.h"
#include "lab/sim/events/memory.h"
#include "lab/sim/members/role_process.h"
#include "protocol/allreduce/reduction.h"

namespace leat::sim {

class GroupNetwork : Concern {
 public:
  using Concern::Concern;

  // ---- connections
  // Connects a member to all others of its group.
  void Connect(const ProcessPtr& p);
  // The process leaves its group, or has ended: tells the others.
  void Leave(const ProcessPtr& p);
  // Rejects the calls that the process has kept for groups not known here yet.
  void DropCallers(const ProcessPtr& p);

  // ---- reductions
  void StartBucket(const ProcessPtr& p, BucketRun::Kind kind, uint64_t begin, uint64_t end, uint64_t bytes);
  // True if every member adds all contributions itself.
  bool OneShot(const RoleProcess& p) const;

  // ---- events
  void OnArrives(uint32_t m);
  void OnDelivered(uint32_t m);
  void OnCrosses(uint32_t m);
  void OnPieceSent(uint32_t index);

 private:
  struct Sending {
    uint32_t slot = 0;
    uint32_t incarnation = 0;
    uint64_t group = 0;
    uint64_t bucket = 0;
    protocol::Hop hop;
  };

  // ---- connections
  void Dial(const ProcessPtr& p, uint32_t rank);
  void Redial(const ProcessPtr& p, uint32_t rank);
  // True if the call is kept for a group not known here yet.
  bool TakeCall(const ProcessPtr& p, uint32_t m);
  void TakeAnswer(const ProcessPtr& p, const Piece& piece);
  void OnConnected(const ProcessPtr& p);
  // Closes this connection at the process in the slot.
  void NotifyLost(uint32_t slot, uint64_t connection, Duration latency, const char* why);
  void NotifyPeers(const ProcessPtr& p);
  // The group is unusable for this member.
  void Break(const ProcessPtr& p, Status why);
  // Sets the timeout of the operation that starts now.
  void Within(const ProcessPtr& p);

  // ---- messages
  uint32_t New(const ProcessPtr& from, Piece::Kind kind, const Membership::Peer& to);
  void Free(uint32_t m);
  // Sends over the host's link, after earlier messages have been processed. Returns when the last byte has
  // left.
  Time Send(const ProcessPtr& from, uint32_t m, Time* in_order, double share_of_slow);
  // There is no receiver. A caller retries.
  void Drop(uint32_t m);
  // Takes a message that has arrived. True if it is kept.
  bool Take(const ProcessPtr& p, uint32_t m);

  // ---- reductions
  // False if the piece does not belong to the bucket.
  bool Accept(const ProcessPtr& p, BucketRun* run, uint32_t m);
  // Executes the pending actions. The bucket, and the group, may have ended afterwards.
  void Proceed(const ProcessPtr& p, uint64_t bucket);
  void Combine(RoleProcess* p, BucketRun* run, const protocol::ReduceAction& action);
  void SendHop(const ProcessPtr& p, uint64_t bucket, BucketRun* run, const protocol::Hop& hop);
  // True if the bucket has real data rather than a modelled size.
  bool Carries(const BucketRun& run) const { return !world_.modelled && run.kind == BucketRun::Kind::kSums; }

  uint64_t last_connection_ = 0;
  Slab<Piece> pieces_;
  Slab<Sending> sendings_;
};

}  // namespace leat::sim
