// Servers: they apply pushes in the order of arrival, and keep those that wait for a step.
//
// A parked message is answered once: when its step is complete, when it has waited too long, or when the
// server's process ends. After each input, Advance sends what the machine has become ready to send.
#pragma once

#include <functional>

#include "lab/sim/members/role_process.h"
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
  PushCounts counts_;
};

}  // namespace leat::sim
