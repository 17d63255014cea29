// Tells a command of the user what numbers of workers and servers are wanted (`autoscale: command` of a job).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "net/loop.h"
#include "net/same_host/same_host_peer.h"
#include "run/roles/background_thread.h"

namespace leat::roles {

// ---- commands of the user: programs with arguments, without a shell
struct Command {
  std::vector<std::string> arguments;              // the program first, looked up in $PATH
  std::map<std::string, std::string> environment;  // in addition to this process's; "" removes a variable
  Duration deadline{0};
};

class CommandRunner {
 public:
  CommandRunner();

  // Runs the command to its end, at most until its deadline, then kills it and its children. Returns ok if
  // its exit status is 0, otherwise what happened, with the last line that it wrote. Blocks; one at a time.
  Status Run(const Command& command);
  // Kills the command that runs, and refuses all others. Thread-safe.
  void Abort();

 private:
  Status Await(pid_t pid, net::Descriptor output, const Command& command);

  const net::Descriptor abort_;  // an eventfd
};

// ---- the hook
// Loop's thread only. The command runs on a thread of its own, once for each change and one at a time; one
// that fails is repeated with the numbers of that time, after a pause that doubles from a second to a minute.
class ScaleHook {
 public:
  struct Numbers {
    uint32_t workers = 0, servers = 0;
    friend bool operator==(const Numbers&, const Numbers&) = default;
  };

  // `job`: its name.
  ScaleHook(net::Loop& loop, const job::AutoscaleSpec& spec, std::string job);
  ~ScaleHook();  // kills the command

  // To be called at least once a second. Runs the command if it has not succeeded with these numbers yet.
  void Want(Time now, const Numbers& numbers);
  const std::string& failure() const { return failure_; }  // the last run's; "": it succeeded

  // The command for these numbers: {workers} and {ps} in an argument stand for them, and so do the variables
  // LEAT_WORKERS and LEAT_PS of the environment. The job's token is not in it.
  static Command CommandFor(const job::AutoscaleSpec& spec, const std::string& job, const Numbers& numbers);

 private:
  void OnEnd(const Numbers& numbers, const Status& status);

  net::Loop& loop_;
  const job::AutoscaleSpec spec_;
  const std::string job_;
  std::optional<Numbers> told_;
  bool running_ = false;
  Time asked_{0};  // the last call of Want
  Time retry_at_{0};
  Duration pause_{0};
  std::string failure_;
  std::shared_ptr<bool> here_ = std::make_shared<bool>(true);
  CommandRunner runner_;
  BackgroundThread thread_;
};

}  // namespace leat::roles
