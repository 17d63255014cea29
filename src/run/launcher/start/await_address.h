// The wait for a coordinator that this process has started (ready.h).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "run/launcher/processes.h"
#include "show/report/display.h"

namespace leat::launcher {

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
