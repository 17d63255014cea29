// Runs a job on this machine with one process per role, for `leat train` and `leat demo`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compute/engine/plan.h"
#include "job/job.h"
#include "run/launcher/security.h"

namespace leat::launcher {

struct RunnerOptions {
  job::JobSource source;
  // The same source as arguments of `leat coordinator`: a job file, or an option such as --demo.
  std::vector<std::string> source_arguments;
  job::JobOverrides overrides;  // empty directory: a new one in leat-jobs/
  bool json = false;            // print the result as one JSON object on stdout, the progress on stderr
  std::string listen = "127.0.0.1:0";  // address that the coordinator listens on
  // Authenticates all roles, and commands such as `leat status`. Empty: a random token that only this job's
  // processes know.
  std::string token;
  Security security;               // shared by all roles
  topology::HostPlace place = {};  // this host's
  std::string metrics;             // where the coordinator serves metrics, HOST:PORT; empty: no role does
  std::string dashboard;  // where the coordinator serves the page of the job, HOST:PORT; empty: nowhere
  // Makes a link to the page from its address and the job's token.
  std::function<std::string(const std::string& address, const std::string& token)> dashboard_link = nullptr;
  uint64_t pause_at = 0;                           // CoordinatorOptions::pause_at
  std::vector<std::string> coordinator_arguments;  // further ones of `leat coordinator`, at each start
  // Descriptors of a program that has started this one; -1: there is none. The coordinator's address is
  // written to the first one when the job has started, and the first one is then closed. When the other end
  // of the second one is closed, the job ends as by Ctrl-C.
  int ready_fd = -1;
  int life_fd = -1;
  engine::PlanOptions plan;  // for the evaluation at the end
};

// Runs the job to its end and returns the exit status: 0 if it is done, or stopped by Ctrl-C with a
// checkpoint; otherwise that of the process that has failed (base/exit_status.h). Processes that end are
// started again: those that crash some times in a row, those that may heal with back-off and without a limit.
// Throws std::invalid_argument on a user's error, and StatusError, before any process is started and before
// anything is written except the job's directory.
int RunLocally(const RunnerOptions& options);

}  // namespace leat::launcher
