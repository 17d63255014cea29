// How many processors this process may use.
#pragma once

#include <sched.h>

#include <algorithm>
#include <cstdint>

namespace leat {

// At least 1; 1 if the kernel does not tell.
inline uint32_t AllowedProcessors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&allowed)));
}

}  // namespace leat
