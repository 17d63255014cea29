// `leat train` and `leat demo`: a whole job on this machine, every role a process of its own.
#pragma once

#include <string>
#include <vector>

#include "engine/plan.h"
#include "job/job.h"

namespace leat::train {

struct RunnerOptions {
  JobSource source;
  // How the coordinator's process is told of the same source: a file, or an option that names a built-in job.
  std::vector<std::string> source_arguments;
  JobOverrides overrides;  // directory empty: a new one below leat-jobs/
  bool json = false;       // one JSON object as the last line of stdout; progress goes to stderr then
  std::string listen = "127.0.0.1:0";  // of the coordinator
  uint64_t pause_at = 0;               // CoordinatorOptions::pause_at
  engine::PlanOptions plan;            // for the evaluation at the end
};

// Returns the exit status: 0 done or stopped by Ctrl-C with a checkpoint, 1 failed. Throws
// std::invalid_argument on what the user got wrong, before any process is started and anything is written but
// the job's directory.
int RunLocally(const RunnerOptions& options);

}  // namespace leat::train
