// Connections among members of a group, as protocol::PeerConnections decides.
//
// A failed connection ends the group for both members. Each closes its connections, so the others notice.
// Messages of a closed connection are dropped.
#pragma once

#include "lab/sim/allreduce/group_parts.h"
#include "lab/sim/members/role_process.h"

namespace leat::sim {

class GroupConnections : Concern {
 public:
  using Concern::Concern;

  // Connects a member to all others of its group.
  void Connect(const ProcessPtr& p);
  void Redial(const ProcessPtr& p, uint32_t rank);
  // True if the call is kept for a group not known here yet.
  bool TakeCall(const ProcessPtr& p, uint32_t m);
  void TakeAnswer(const ProcessPtr& p, const Piece& piece);
  // Closes this connection at the process in the slot.
  void NotifyLost(uint32_t slot, uint64_t connection, Duration latency, const char* why);
  // The group is unusable for this member.
  void Break(const ProcessPtr& p, Status why);
  // The process leaves its group, or has ended: tells the others.
  void Leave(const ProcessPtr& p);
  // Sets the timeout of the operation that starts now.
  void Within(const ProcessPtr& p);

 private:
  void Dial(const ProcessPtr& p, uint32_t rank);
  void OnConnected(const ProcessPtr& p);
  void NotifyPeers(const ProcessPtr& p);

  uint64_t last_connection_ = 0;
};

}  // namespace leat::sim
