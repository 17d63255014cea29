// Tells a command of the user what numbers of workers and servers are wanted (`autoscale: command` of a job).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "job/job.h"
#include "net/loop.h"
#include "run/roles/autoscale/command.h"
#include "run/roles/background_thread.h"

namespace leat::roles {

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
