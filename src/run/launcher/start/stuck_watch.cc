#include "run/launcher/start/stuck_watch.h"

#include <time.h>

namespace leat::launcher {

Duration CpuTimeOf(pid_t pid) {
  clockid_t clock{};
  timespec used{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0) return Duration::zero();
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

}  // namespace leat::launcher
