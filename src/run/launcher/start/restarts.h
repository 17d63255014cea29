// Which processes of a local job are started again after their end, and how soon. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/clock.h"
#include "run/launcher/processes.h"

namespace leat::launcher {

class Restarts {
 public:
  // Whether an end by itself is followed by another start.
  bool MayRestart(const ProcessEnd& end, bool coordinator);
  // How long the next start of this process waits. After a crash: not at all.
  Duration PauseBefore(const std::string& name, bool crashed);
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
