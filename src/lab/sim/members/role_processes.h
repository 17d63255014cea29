// Servers and workers as members of the job: they start, join, send heartbeats, join again and end.
//
// The executor carries out the machines' actions (executor.h). Invariant: a process is in the table from its
// start to its end, and its machine is that of its incarnation.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lab/sim/cluster/world.h"
#include "lab/sim/members/role_process.h"

namespace leat::sim {

class RoleProcesses : Concern {
 public:
  using Concern::Concern;

  // The processes with which a job begins.
  void StartAll();
  // `address`: where it listens; empty: at a new one. `host` as in HostLinks::PutOnHost.
  void Start(protocol::Role role, std::string address = "", bool standby = false,
             uint32_t host = HostLinks::kAnyHost);
  void JoinAgain(const ProcessPtr& p);
  // The process has ended. Its state is dropped, and messages to it find no receiver.
  void OnExit(const ProcessPtr& p);
  void Execute(const ProcessPtr& p, const protocol::StopRole& a);

  bool Urgent(const RoleProcess& p) const;  // its next heartbeat
  // Sends a heartbeat if one is due, or sets the timer for it.
  void MaybeSendHeartbeat(const ProcessPtr& p);
  // Does what is due, and sets the timer for what is due next.
  void Wake(const ProcessPtr& p);
  void OnTimer(uint32_t slot, Time at);

  // The last known progress of every server that ever existed.
  const std::map<NodeId, protocol::ServerProgress>& progress() const { return progress_; }
  const MemberCounts& counts() const { return counts_; }
  uint64_t servers_left() const { return servers_left_; }

 private:
  void Join(const ProcessPtr& p);
  void AskToJoin(const ProcessPtr& p, const std::function<void()>& again);
  void SendHeartbeat(const ProcessPtr& p);
  void OnHeartbeatReply(const ProcessPtr& p, const std::optional<protocol::ControlReply>& reply);
  uint64_t TermOf(const RoleProcess& p) const;  // term of the coordinator that it follows
  void WakeAt(const ProcessPtr& p, Time at);

  std::map<NodeId, protocol::ServerProgress> progress_;
  MemberCounts counts_;
  uint64_t servers_left_ = 0;  // after they have handed all slices over
};

}  // namespace leat::sim
