// Log lines about the state of a job: each trouble once, when it comes and when it goes. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "protocol/coordinator/coordinator.h"

namespace leat::roles {

class JobWarnings {
 public:
  void OnStatus(Time now, const protocol::CoordinatorStatus& status);
  // Failures since the last call.
  void OnFailedCheckpoints(const protocol::CoordinatorStatus& status);

 private:
  void LogUnreachable(const protocol::CoordinatorStatus& status);
  void LogWait(Time now, const std::string& what);

  std::map<std::pair<NodeId, NodeId>, std::string> unreachable_;  // by worker and peer: the warning
  std::map<std::string, std::string> misplaced_;                  // by rule of places
  std::string waits_for_;
  Time waits_since_{0};
  bool wait_is_logged_ = false;
  uint64_t failed_checkpoints_ = 0;
};

}  // namespace leat::roles
