// Processor time of a process, as the Linux kernel reports it.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <string>

#include "base/status.h"

namespace leat::metrics {

// Processor time of all threads, in seconds. pid 0 is the calling process. kNotFound if there is no such
// process, or if it has ended and was waited for. Thread-safe.
inline Result<double> CpuSeconds(pid_t pid = 0) {
  clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
  timespec used{};
  if ((pid != 0 && clock_getcpuclockid(pid, &clock) != 0) || clock_gettime(clock, &used) != 0)
    return Status(Code::kNotFound, "no such process: " + std::to_string(pid));
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace leat::metrics
