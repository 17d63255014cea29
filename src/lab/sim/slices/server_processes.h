// Servers: they apply pushes in the order of arrival, forward them to the replicas of their slices, and move
// slices to each other, with the faults of the data plane.
//
// A parked push is answered once: when its step is complete, when it has waited too long, or when the
// server's process ends. Forwards of a link arrive in order, and so do their acknowledgements; a link that
// has lost one loses all later ones, until the server gives it up. A move carries a copy of the slices as
// they were when they were sent. After each input, Advance sends what the machine has become ready to send.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "lab/sim/members/role_process.h"
#include "lab/sim/push/push_messages.h"
#include "protocol/actions.h"
#include "protocol/cut.h"
#include "protocol/ledger.h"
#include "protocol/server/server.h"

namespace leat::sim {

class ServerProcesses : Concern {
 public:
  using Concern::Concern;

  // Applies a push whose last byte comes at `there`.
  void Serve(const ProcessPtr& p, uint32_t m, Time there);
  // Sends forwards, moves, and the replies that are ready.
  void Advance(const ProcessPtr& p);
  // Gives the machine an input later, in the same incarnation.
  void Later(const ProcessPtr& p, Duration delay, std::function<void(protocol::Server&)> input);

  void Execute(const ProcessPtr& p, const protocol::Forward& a);
  void Execute(const ProcessPtr& p, const protocol::ConnectMove& a);
  void Execute(const ProcessPtr& p, const protocol::SendMove& a);
  void Execute(const ProcessPtr& p, const protocol::AnswerMove& a);
  // Forwards and moves on their way may arrive all the same.
  void Execute(const ProcessPtr&, const protocol::DropLink&) {}
  void Execute(const ProcessPtr&, const protocol::DropMove&) {}

  // ---- parked pushes
  // The worker in the slot has closed its connection, or is gone.
  void ForgetParked(const ProcessPtr& server, uint32_t worker);
  void ExpireParked(const ProcessPtr& server);
  // The process joins again (`end`: Free), or has ended (Abandon).
  void EndParked(RoleProcess* server, void (PushMessages::*end)(uint32_t));

 private:
  // Forwarded pushes from one server to another.
  struct ForwardLink {
    uint64_t link = 0, acknowledged = 0;
    Time there{0}, back{0};
    bool broken = false;
  };

  void ArriveForward(const ProcessPtr& from, const ProcessPtr& to, const protocol::Forward& a,
                     const std::vector<std::vector<float>>& gradients);
  void FailForward(const ProcessPtr& p, Duration delay, NodeId to, uint64_t link);
  // The server of the slices, or that of their replicas, may die here. True if it is the one that acts: it
  // does nothing more.
  bool DiesAt(ForwardPoint point, const ProcessPtr& primary, const ProcessPtr& replica);
  // Whether the network loses a forward between the two.
  bool Lost(NodeId a, NodeId b);
  void ArriveMove(uint32_t address_id, const ProcessPtr& from, uint64_t id,
                  const std::vector<protocol::MovedSlice>& slices);
  // A process that takes part in a move may die here.
  void AtPoint(MovePoint point, const ProcessPtr& from, uint32_t to_address);

  std::map<std::pair<uint32_t, NodeId>, ForwardLink> forward_links_;  // by slot and the other server
  std::map<std::pair<uint32_t, uint64_t>, ProcessPtr> senders_;       // by the receiver's slot and move
};

// Invariants of slices and of the pushes to them: an incarnation of a slice is updated on one server at a
// time, from where another has left it (kSlicesOneWriter), a run that a worker was told to be on a slice
// stays there through any failover of its replicas (kSlicesTold), and without steps no run is applied twice
// to a slice (kPushAppliedOnce).
class SliceCheck : Concern {
 public:
  using Concern::Concern;

  // An incarnation of a slice is restored with this ledger.
  void OnLoaded(SliceId slice, Incarnation incarnation, std::vector<protocol::PartitionLedger> ledger);
  void CheckApplied(const protocol::PushRequest& request, const std::vector<protocol::SliceReply>& replies);

  // The versions of a server's slices.
  std::vector<protocol::SliceRef> VersionsOf(const RoleProcess& server) const;
  // `before`: the versions of the server's slices before a push.
  void CheckWriter(const RoleProcess& p, const std::vector<protocol::SliceRef>& before);
  // The slices of a server, before a reply by which it may become the server of more.
  struct Before {
    std::vector<protocol::SliceRef> versions;
    std::vector<bool> replicas;  // by slice
  };
  Before SlicesOf(const RoleProcess& p) const;
  void CheckTakenOver(const RoleProcess& p, const Before& before);
  // Checks that runs reported to workers are on the server's slices, and on those of any server in its place.
  void CheckTold(const RoleProcess& p, const protocol::PushRequest& request,
                 const protocol::PushReply& reply);

 private:
  using SliceKey = std::pair<SliceId, Incarnation>;
  // The runs applied to one slice in one incarnation, by its server's replies.
  struct Applied {
    std::vector<protocol::PartitionLedger> loaded;  // from the checkpoint that it was restored from
    std::set<std::tuple<uint32_t, protocol::Position, uint32_t>> runs;  // partition, begin of the cut, run
  };
  struct ToldRun {
    protocol::Cut cut;
    uint32_t run = 0;
  };

  std::map<SliceKey, Applied> applied_;
  std::map<SliceKey, uint64_t> versions_;  // reached by an update, on any server
  std::map<SliceKey, std::vector<ToldRun>> told_;
};

}  // namespace leat::sim
