// Calls of the control plane: from a process to the coordinator, or standby, that it takes for the newest.
//
// Every call is answered exactly once: with the reply, or with none if it was lost or late, or nobody was
// there. A process that is not answered tries the next address.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "lab/sim/cluster/world.h"
#include "protocol/messages_control.h"

namespace leat::sim {

class ControlCalls : Concern {
 public:
  using Concern::Concern;

  void Call(const std::shared_ptr<Process>& from, protocol::ControlRequest request,
            std::function<void(std::optional<protocol::ControlReply>)> answer);

  // ---- a person's commands
  // Sends a command once.
  void Tell(const protocol::AdminRequest& command);
  // Pauses the job, and continues it after a while. The person repeats both commands until they are answered.
  void PauseJob(Duration lasts);

 private:
  void Repeat(protocol::AdminRequest::Kind kind, std::function<void()> then);
  // A process that calls the newest coordinator.
  std::shared_ptr<Process> Admin() const;

  uint64_t last_call_ = 0;
};

}  // namespace leat::sim
