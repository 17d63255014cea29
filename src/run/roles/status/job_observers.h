// Observers of a job: Prometheus and probes (CoordinatorOptions::metrics), TensorBoard, and the history
// in the job's directory with its dashboard. Files are written by other threads: a slow disk makes gaps in
// the history and holds up nothing else. Loop's thread only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "net/loop.h"
#include "protocol/coordinator/coordinator.h"
#include "run/roles/background_thread.h"
#include "run/roles/start/coordinator_options.h"
#include "show/history/job_monitor.h"
#include "show/report/job_status.h"
#include "show/tensorboard/run_writer.h"

namespace leat::roles {

class JobObservers {
 public:
  using Show = std::function<report::JobStatus()>;

  // `directory`: the job's. `tensorboard`: null, nobody has asked for it.
  JobObservers(net::Loop& loop, const CoordinatorOptions& options, std::string directory,
               std::unique_ptr<tensorboard::RunWriter> tensorboard);
  // The job's page shows that this coordinator is gone, unless the job ended.
  ~JobObservers();

  void StartHistory();
  // From here on the loop is watched, and Prometheus gets what `show` returns on the loop.
  void StartMetrics(Show show);
  void StopMetrics();
  // The loop has made a turn.
  void OnTurn(Time now);
  void OnGradients(const protocol::ControlRequest& request);
  // To be called ten times a second or more.
  void OnStatus(Time now, const protocol::CoordinatorStatus& status, const Show& show);
  void OnCheckpoint(const protocol::Manifest& manifest);
  // The last status. Waits some seconds at most.
  void Finish(Time now, const report::JobStatus& summary);

 private:
  void StoreHistory(Time now, const Show& show);
  // A clock that is set while the job runs does not change this.
  double UnixSeconds(Time now) const { return Seconds(now - clocks_compared_at_) + clock_at_comparison_; }

  net::Loop& loop_;
  observe::RoleMetrics* const metrics_;  // null: it shows none
  const std::unique_ptr<tensorboard::RunWriter> tensorboard_;
  const Time clocks_compared_at_ = loop_.Now();
  const double clock_at_comparison_ = Seconds(UnixTime());
  const std::string directory_;
  const std::shared_ptr<observe::JobMonitor> monitor_;
  Time last_stored_{0};
  std::atomic<bool> history_busy_ = false;
  std::optional<observe::Recorder> history_;         // used by history_thread_
  BackgroundThread history_thread_{kNiceWithFiles};  // uses the members above
};

}  // namespace leat::roles
