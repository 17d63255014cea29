// Commands of a person, who repeats them until they are answered.
#pragma once

#include <functional>

#include "lab/sim/members/control_calls.h"
#include "protocol/messages_control.h"

namespace leat::sim {

class AdminCommands {
 public:
  AdminCommands(World& world, ControlCalls& calls, CoordinatorProcesses& coordinators)
      : world_(world), calls_(calls), coordinators_(coordinators) {}

  // Sends a command once.
  void Tell(const protocol::AdminRequest& command);
  // Pauses the job, and continues it after a while.
  void PauseJob(Duration lasts);

  uint64_t job_pauses() const { return job_pauses_; }

 private:
  void Repeat(protocol::AdminRequest::Kind kind, std::function<void()> then);
  // A process that calls the newest coordinator.
  std::shared_ptr<Process> Admin() const;

  World& world_;
  ControlCalls& calls_;
  CoordinatorProcesses& coordinators_;
  uint64_t job_pauses_ = 0;
};

}  // namespace leat::sim
