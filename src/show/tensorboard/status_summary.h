// Summaries of a job's status for TensorBoard.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "show/report/job_status.h"
#include "show/tensorboard/events.h"

namespace leat::tensorboard {

// Turns one status after the other into summaries. docs/tensorboard.md lists the tags. Not thread-safe.
class StatusSummary {
 public:
  // At most so many members of a role have scalars of their own: those with the lowest indexes.
  static constexpr size_t kMaxMembers = 16;

  // Figures that are not known are left out. The histogram of staleness covers what was applied since the
  // last status. Descriptions come once.
  Summary Take(const report::JobStatus& status);

 private:
  std::vector<uint64_t> staleness_;  // as of the last status
  std::set<std::string> described_;  // tags
};

}  // namespace leat::tensorboard
