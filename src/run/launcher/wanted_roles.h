// Processes that a local job should have: the numbers of workers and servers that are wanted, as the
// coordinator's status has them, and which processes are started again after their end, and how soon.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "run/launcher/processes.h"
#include "show/report/job_status.h"

namespace leat::launcher {

// Pure.
class WantedRoles {
 public:
  struct Order {
    std::string role;
    uint32_t count = 0;      // processes that the role should have
    bool may_start = false;  // false: there may be fewer
    bool may_drain = false;  // false: there may be more for now
    friend bool operator==(const Order&, const Order&) = default;
  };
  // A process that is not to leave.
  struct Process {
    pid_t pid = 0;
    uint32_t index = 0;   // number in its name
    bool member = false;  // it has joined the job
  };
  struct Change {
    std::vector<uint32_t> starts;  // indexes
    std::vector<pid_t> drains;
    friend bool operator==(const Change&, const Change&) = default;
  };

  // The orders that follow from a status. Each change of a fixed number starts processes once, so that a
  // process which has left on a signal stays away; a number that the autoscaler has chosen starts them again
  // and again. Processes beyond a number always leave: a worker that stood by may take a place for which a
  // process was started, and an evicted one may come back.
  std::vector<Order> OnStatus(const report::JobStatus& status);

  // Turns an order into changes of the processes of its role that stay. `taken`: indexes that are in use.
  // Processes that are no members leave first: they have nothing to hand over.
  static Change ChangeFor(const Order& order, std::vector<Process> staying, const std::set<uint32_t>& taken);

 private:
  std::map<std::string, uint32_t> obeyed_;  // by role
};

// The pause before a process is started again whose end may heal, after so many failures; doubles.
Duration PauseAfter(int failures);

// Not thread-safe.
class Restarts {
 public:
  // Whether an end by itself is followed by another start.
  bool MayRestart(const ProcessEnd& end, bool coordinator);
  // How long the next start of this process waits. After a crash: not at all.
  Duration PauseBefore(const std::string& name, bool crashed) {
    return crashed ? Duration::zero() : PauseAfter(retries_[name]++);
  }
  // The job has made progress, but not by processes that still `wait` for their start.
  void OnProgress(const std::function<bool(const std::string& name)>& waits);

 private:
  // By the name of a process, since the job last made progress.
  std::map<std::string, int> failed_starts_;
  std::map<std::string, int> retries_;  // restarts after ends that may heal
};

// The exit status of a job that ends with one of its processes.
int ExitStatusAfter(int exit_code);
// How a process has ended, and why if it said so.
std::string HowEnded(const ProcessEnd& end);

}  // namespace leat::launcher
