// Tells a process that works for long from one that hangs, while it has nothing to say.
#pragma once

#include <sys/types.h>

#include "base/clock.h"

namespace leat::launcher {

// Processor time that a process has used so far; zero if there is none with this number.
Duration CpuTimeOf(pid_t pid);

// Not thread-safe.
class StuckWatch {
 public:
  // A process hangs once it has used less than `least` of processor time for `limit`. Reading files from the
  // slowest of disks uses more; a process that waits for ever may still have timers.
  struct Limits {
    Duration limit = std::chrono::minutes(2);
    Duration least = std::chrono::milliseconds(100);
  };
  StuckWatch(const Limits& limits, Time now) : limits_(limits), since_(now) {}

  // `used`: CpuTimeOf the process, which never falls.
  bool IsStuck(Time now, Duration used) {
    if (used >= used_ + limits_.least) Restart(now, used);
    return now >= since_ + limits_.limit;
  }
  // The process has shown in another way that it is alive.
  void Restart(Time now, Duration used) {
    since_ = now;
    used_ = used;
  }

 private:
  const Limits limits_;
  Time since_;
  Duration used_ = Duration::zero();  // at `since_`
};

}  // namespace leat::launcher
