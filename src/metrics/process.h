// What a process has used: processor time and memory, from the kernel (Linux).
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/status.h"

namespace leat::metrics {

struct Memory {
  uint64_t rss_bytes = 0;       // resident now
  uint64_t peak_rss_bytes = 0;  // the most that ever was
  uint64_t pss_bytes = 0;       // resident, each shared page divided by how many processes share it
};

// Seconds of processor time, all threads together. pid 0 is this process. kNotFound when there is no such
// process (also when it has been waited for).
Result<double> CpuSeconds(pid_t pid = 0);
// Costs about a millisecond: the kernel walks the pages. kNotFound as above; a process that has ended but was
// not waited for has none left: all zero.
Result<Memory> MemoryOf(pid_t pid = 0);

}  // namespace leat::metrics
