// What a job's status shows in TensorBoard.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "observe/tensorboard/events.h"

namespace leat::tensorboard {

// Turns one status after the other, as report::Progress makes them, into summaries. docs/tensorboard.md lists
// the tags. Not thread-safe.
class StatusSummary {
 public:
  // At most so many members of a role have scalars of their own: those with the lowest indexes.
  static constexpr size_t kMaxMembers = 16;

  struct Step {
    uint64_t events = 0;  // trained so far: the step of everything that TensorBoard shows
    Summary summary;
  };
  // Figures that the status does not have, or that are not numbers, are left out. The histogram of staleness
  // covers what was applied since the last status. Descriptions come once. Throws nlohmann::json::exception
  // if it is no status.
  Step Take(const nlohmann::json& status);

 private:
  std::vector<uint64_t> staleness_;  // as of the last status
  std::set<std::string> described_;  // tags
};

}  // namespace leat::tensorboard
