// The job of `leat train`, checked and with a directory, before any of its processes is started.
#pragma once

#include "job/job.h"
#include "run/launcher/runner.h"

namespace leat::launcher {

struct PreparedJob {
  job::Job job;
  bool made_directory = false;  // the directory is new, and useless if the job cannot be started
};

// Throws std::invalid_argument on a user's error, and StatusError. All checks come before the first write,
// which makes the job's directory. Reads the whole newest checkpoint of a job that is resumed, which may take
// minutes; Ctrl-C then ends this process.
PreparedJob PrepareJob(const RunnerOptions& options);

}  // namespace leat::launcher
