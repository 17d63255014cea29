// Child processes of the local runner: started, watched, ended, and accounted for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace leat::train {

struct ProcessSpec {
  std::string name;                                // "worker-0"
  std::vector<std::string> arguments;              // of this program
  std::map<std::string, std::string> environment;  // beside its own
  std::string log;                                 // file that stdout and stderr are appended to
};

struct ProcessEnd {
  pid_t pid = 0;
  std::string name;
  int exit_code = 0;       // 128 + signal when a signal ended it
  std::string last_error;  // LastErrorLine of what it wrote
  double cpu_seconds = 0;
  uint64_t peak_rss_bytes = 0;
};

// Not thread-safe. Children are in process groups of their own (Ctrl-C reaches the parent alone) and die when
// their parent does.
class Processes {
 public:
  // Whoever started this process may have had the ends of children ignored; from now on they are told.
  Processes();
  ~Processes();  // kills whoever is left
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Starts this very program with the arguments given.
  Result<pid_t> Start(const ProcessSpec& spec);
  // Those that have ended since the last call; does not block.
  std::vector<ProcessEnd> Reap();
  // Sleeps until one has ended that was not reaped, somebody calls Wake, or the time is over.
  void Await(Duration wait) const;
  // Thread-safe.
  void Wake();
  void Signal(int signal);  // to all
  bool empty() const { return running_.empty(); }
  double cpu_seconds() const { return cpu_seconds_; }  // of all that have ended

 private:
  struct Process {
    std::string name;
    std::string log;
    uint64_t log_begin = 0;  // where it was when this process began
  };
  std::map<pid_t, Process> running_;
  const int wake_;  // an eventfd
  double cpu_seconds_ = 0;
};

// The last line of a log, from byte `from` on, that begins with "leat: " (why a role gave up), without that;
// empty when there is none.
std::string LastErrorLine(const std::string& log, uint64_t from = 0);

}  // namespace leat::train
