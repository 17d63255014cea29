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

 private:
  uint64_t last_call_ = 0;
};

// Commands of a person, who repeats them until they are answered.
class AdminCommands : Concern {
 public:
  using Concern::Concern;

  // Sends a command once.
  void Tell(const protocol::AdminRequest& command);
  // Pauses the job, and continues it after a while.
  void PauseJob(Duration lasts);

  uint64_t job_pauses() const { return job_pauses_; }

 private:
  void Repeat(protocol::AdminRequest::Kind kind, std::function<void()> then);
  // A process that calls the newest coordinator.
  std::shared_ptr<Process> Admin() const;

  uint64_t job_pauses_ = 0;
};

}  // namespace leat::sim
