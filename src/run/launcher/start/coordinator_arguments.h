// The command line of the coordinator that a local job starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "run/launcher/runner.h"

namespace leat::launcher {

struct CoordinatorStart {
  int ready_fd = -1;
  bool again = false;  // it has died, and goes on where it was
  // As of the coordinator that has died; empty: not known.
  std::string address, metrics, dashboard;
  uint64_t events = 0;  // trained by the job
};
std::vector<std::string> CoordinatorArguments(const RunnerOptions& options, const job::Job& job,
                                              const CoordinatorStart& start);

}  // namespace leat::launcher
