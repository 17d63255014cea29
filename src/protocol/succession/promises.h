// Promises of a member to coordinators with directories of their own: a state machine beside the member's.
//
// A member whose coordinator does not answer calls the standbys. A standby that wants to be its coordinator
// answers with a Candidacy; the member promises a term to one candidate, and from then on ignores every reply
// of a lower term. It promises nothing to a candidate outside the newest set of coordinators that it knows.
// It forgets nothing while the process is this node.
//
// An evicted member may still be an elector in the journal of a standby, and the coordinator may be lost
// before it names others. So the process goes on voting as this node until it has joined again; afterwards
// nobody asks it as this node.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "protocol/messages_control.h"

namespace leat::protocol {

class Promises {
 public:
  // As a new node, of the coordinator of this term.
  void OnJoined(NodeId node, uint64_t term);
  // Goes into each heartbeat.
  ElectorState state() const { return {promised_, set_.term, set_.epoch}; }
  // The reply to a heartbeat. False: the rest of it does not count.
  bool OnReply(const ControlReply& reply);
  // The coordinator waits for the next heartbeat.
  bool TakeUrgent() { return std::exchange(urgent_, false); }
  Promise OnCandidacy(const Candidacy& candidacy);
  // The heartbeat of an evicted server or worker: a coordinator refuses it as a member, a candidate counts it
  // as a call.
  ControlRequest MakeHeartbeat(Role role) const;

  NodeId node() const { return node_; }  // 0: it has never joined
  uint64_t promised() const { return promised_; }

 private:
  bool Take(uint64_t term, const std::optional<CoordinatorSet>& coordinators, bool waiting);

  NodeId node_;
  uint64_t promised_ = 0;     // the highest term, by a promise or because the member follows it
  uint64_t promised_to_ = 0;  // the candidate; 0: it follows the coordinator of this term
  CoordinatorSet set_;        // the newest that it knows
  bool urgent_ = false;
};

}  // namespace leat::protocol
