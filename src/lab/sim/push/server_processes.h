// Servers: they apply pushes in the order of arrival, and keep those that wait for a step.
//
// A parked message is answered once: when its step is complete, when it has waited too long, or when the
// server's process ends. After each input, Advance sends what the machine has become ready to send.
#pragma once

#include <functional>

#include "lab/sim/members/role_process.h"
#include "protocol/server/server.h"

namespace leat::sim {

class FaultInjector;
class ForwardMessages;
class HostCores;
class MoveTransfers;
class PullMessages;
class PushCheck;
class PushMessages;
class SliceCheck;
class RoleProcesses;

class ServerProcesses {
 public:
  ServerProcesses(World& world, HostCores& cores, PushMessages& pushes, RoleProcesses& members,
                  MoveTransfers& moves, ForwardMessages& forwards, PullMessages& pulls, FaultInjector& faults,
                  PushCheck& push_check, SliceCheck& slice_check)
      : world_(world),
        cores_(cores),
        pushes_(pushes),
        members_(members),
        moves_(moves),
        forwards_(forwards),
        pulls_(pulls),
        faults_(faults),
        push_check_(push_check),
        slice_check_(slice_check) {}

  // Applies a push whose last byte comes at `there`.
  void Serve(const ProcessPtr& p, uint32_t m, Time there);
  // Sends forwards, moves, and the replies that are ready.
  void Advance(const ProcessPtr& p);
  // Gives the machine an input later, in the same incarnation.
  void Later(const ProcessPtr& p, Duration delay, std::function<void(protocol::Server&)> input);

  // ---- parked messages
  // The worker in the slot has closed its connection, or is gone.
  void ForgetParked(const ProcessPtr& server, uint32_t worker);
  void ExpireParked(const ProcessPtr& server);
  // The process joins again.
  void FreeParked(RoleProcess* server);
  // The process has ended.
  void AbandonParked(RoleProcess* server);

  const PushCounts& counts() const { return counts_; }

 private:
  void Reply(const ProcessPtr& p, uint32_t m, protocol::PushReply&& reply);

  World& world_;
  HostCores& cores_;
  PushMessages& pushes_;
  RoleProcesses& members_;
  MoveTransfers& moves_;
  ForwardMessages& forwards_;
  PullMessages& pulls_;
  FaultInjector& faults_;
  PushCheck& push_check_;
  SliceCheck& slice_check_;
  PushCounts counts_;
};

}  // namespace leat::sim
