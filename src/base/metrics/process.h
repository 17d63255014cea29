// Processor time and memory of a process, as the Linux kernel reports them. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/status.h"

namespace leat::metrics {

struct Memory {
  uint64_t rss_bytes = 0;       // resident now
  uint64_t peak_rss_bytes = 0;  // highest so far
  uint64_t pss_bytes = 0;       // proportional: a page shared by n processes counts 1/n
};

// Processor time of all threads, in seconds. pid 0 is the calling process. kNotFound if there is no such
// process, or if it has ended and was waited for.
Result<double> CpuSeconds(pid_t pid = 0);
// Takes about a millisecond, since the kernel walks the page tables. kNotFound as above. All values are 0 for
// a process that has ended but was not waited for.
Result<Memory> MemoryOf(pid_t pid = 0);

}  // namespace leat::metrics
