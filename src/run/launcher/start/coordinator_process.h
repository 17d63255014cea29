// The coordinator that a local job starts: its command line, and the wait for its address (ready.h).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "run/launcher/processes.h"
#include "run/launcher/runner.h"
#include "show/report/display.h"

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

struct AddressWait {
  int fd = -1;  // the pipe's end for reading
  pid_t pid = 0;
  bool again = false;    // it has died: the first Ctrl-C waits for it, unless it waits for others
  bool resumes = false;  // the job is not new
  const std::atomic<int>& interrupts;  // number of times that Ctrl-C was pressed
  Processes& processes;
  report::Display& display;
};
struct FoundAddress {
  std::string address;  // empty: it has failed, hangs, or is not wanted any more
  bool over = false;    // the coordinator has closed the pipe
};
// Blocks. Says what the coordinator waits for, and asks it to end when Ctrl-C was pressed meanwhile.
FoundAddress AwaitAddress(const AddressWait& wait);

}  // namespace leat::launcher
