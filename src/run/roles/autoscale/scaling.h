// How many workers and servers a job wants: as it was set, or as the autoscaler chooses. The coordinator
// shows it in its status and as gauges, and tells KEDA, or a command of the user (`autoscale: command` of a
// job).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "job/job.h"
#include "net/loop.h"
#include "net/rpc/scaler/scaler_server.h"
#include "net/same_host/same_host_peer.h"
#include "protocol/coordinator/coordinator_settings.h"
#include "protocol/scaling/autoscaler.h"
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
  ScaleHook(net::Loop& loop, const job::AutoscaleSpec& spec, std::string job)
      : loop_(loop), spec_(spec), job_(std::move(job)) {}
  ~ScaleHook() {  // kills the command
    *here_ = false;
    runner_.Abort();
  }

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

// ---- the numbers that are wanted

// Loop's thread only.
class Scaling {
 public:
  // `job`: its name. The gauges are leat_wanted_workers (0: not known yet) and leat_wanted_ps.
  // `scaler`: null, there is none. `workers_hold_state`: without servers, so that the job needs workers
  // always.
  Scaling(net::Loop& loop, const job::AutoscaleSpec& spec, const std::string& job,
          metrics::Registry& registry, control::ScalerServer* scaler = nullptr,
          bool workers_hold_state = false);

  // To be called a few times a second. `oldest`: how long the oldest event has waited that some slice lacks.
  void OnStatus(Time now, const protocol::CoordinatorStatus& status, Duration oldest);
  // Workers chosen within the range; 0: not known yet.
  uint32_t chosen() const { return autoscaler_ ? autoscaler_->decision().workers : 0; }
  // False while the scaler says that the job may go without workers.
  bool needs_workers() const { return needs_workers_; }
  // Adds figures that the coordinator does not know itself.
  void Fill(protocol::CoordinatorStatus::Wanted* wanted) const;

 private:
  void Choose(Time now, const protocol::CoordinatorStatus& status, Duration oldest);

  const job::AutoscaleSpec spec_;
  control::ScalerServer* const scaler_;
  const bool workers_hold_state_;
  protocol::Activity activity_;
  bool needs_workers_ = true;
  metrics::Gauge& workers_;
  metrics::Gauge& servers_;
  protocol::WorkerRange range_;
  std::optional<protocol::Autoscaler> autoscaler_;  // none: the number is fixed
  std::optional<ScaleHook> hook_;                   // none: the job has none
};

// A job at the moment of its status, for the autoscaler.
protocol::Load LoadOf(const protocol::CoordinatorStatus& status, Duration oldest);

}  // namespace leat::roles
