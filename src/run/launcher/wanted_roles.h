// How the local runner follows the numbers of workers and servers that are wanted, as the coordinator's
// status has them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

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

}  // namespace leat::launcher
