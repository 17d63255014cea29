// Reports about a running job: its progress, recordings, gradients, alarms of drift with what follows from
// them (a checkpoint, or a raised learning rate for a while), warnings in the log, and its observers:
// Prometheus and probes (CoordinatorOptions::metrics), TensorBoard, and the history in the job's directory
// with its dashboard. Files are written by other threads: a slow disk makes gaps in the history and holds up
// nothing else. Loop's thread only.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "job/job.h"
#include "net/loop.h"
#include "protocol/coordinator/coordinator_settings.h"
#include "protocol/messages_control.h"
#include "protocol/outbox/outbox.h"
#include "run/roles/background_thread.h"
#include "run/roles/recording/recording.h"
#include "run/roles/start/coordinator_options.h"
#include "show/history/job_monitor.h"
#include "show/report/job_status.h"
#include "show/report/progress.h"
#include "show/tensorboard/run_writer.h"

namespace leat::roles {

// Log lines about the state of a job: each trouble once, when it comes and when it goes.
class JobWarnings {
 public:
  void OnStatus(Time now, const protocol::CoordinatorStatus& status);
  // Failures since the last call.
  void OnFailedCheckpoints(const protocol::CoordinatorStatus& status);

 private:
  std::map<std::pair<NodeId, NodeId>, std::string> unreachable_;  // by worker and peer: the warning
  std::map<std::string, std::string> misplaced_;                  // by rule of places
  std::string waits_for_;
  Time waits_since_{0};
  bool wait_is_logged_ = false;
  uint64_t failed_checkpoints_ = 0;
};

class JobReports {
 public:
  // Called on the loop, after an alarm of drift.
  struct Callbacks {
    std::function<void(protocol::AdminRequest, std::function<void(protocol::ControlReply)>)> request;
    std::function<protocol::CoordinatorActions()> raise;  // Coordinator::OnDrift
    std::function<void(protocol::CoordinatorActions)> commit;
  };
  // `term`: the coordinator's. `directory`: the job's. `tensorboard`: null, nobody has asked for it.
  JobReports(net::Loop& loop, const job::Job& job, const CoordinatorOptions& options, uint64_t term,
             const std::string& directory, std::unique_ptr<tensorboard::RunWriter> tensorboard,
             Callbacks callbacks);
  // The job's page shows that this coordinator is gone, unless the job ended.
  ~JobReports() {
    history_thread_.End();
    monitor_->SetLive(false);
  }

  report::Progress& progress() { return progress_; }
  JobRecording& recording() { return recording_; }

  // The coordinator serves at this address from now on, with these members of the former one. The history
  // begins.
  void OnStart(Time now, const std::string& address, const std::vector<protocol::MemberJoined>& taken_over);
  // From here on the loop is watched, and Prometheus gets what `show` returns on the loop.
  void StartMetrics(std::function<report::JobStatus()> show);
  void StopMetrics();
  // The loop has made a turn.
  void OnTurn(Time now) {
    if (metrics_ != nullptr) metrics_->liveness().Turned(now);
  }
  void OnJoin(Time now, const protocol::JoinRequest& request, const protocol::JoinReply& joined);
  void OnRequest(Time now, uint64_t call, const protocol::ControlRequest& request);
  // Adds orders to record, and questions for gradients.
  void AddOrders(Time now, uint64_t call, protocol::ControlReply* reply);
  // To be called ten times a second or more, after Progress::OnStatus.
  void OnStatus(Time now, const protocol::CoordinatorStatus& status);
  // `begin`: when it was begun; none: not known.
  void OnCheckpoint(const protocol::Manifest& manifest, std::optional<Time> begin);
  // The status as it is shown, at this moment.
  report::JobStatus Show(Time now, const protocol::CoordinatorStatus& status);
  // kInvalidArgument: the job has finished, and its stream has too many dead letters.
  Status CheckDeadLetters(const protocol::CoordinatorStatus& status) const;
  // The job's last status. Writes its summary. Blocks for some seconds at most.
  void Finish(const report::JobStatus& summary);

 private:
  void OnAlarms(const std::vector<report::DriftAlarm>& alarms);
  void RaiseRate();
  void StoreHistory(Time now, const std::function<report::JobStatus()>& show);
  // A clock that is set while the job runs does not change this.
  double UnixSeconds(Time now) const { return Seconds(now - clocks_compared_at_) + clock_at_comparison_; }

  net::Loop& loop_;
  const job::Job& job_;
  const CoordinatorOptions& options_;
  const uint64_t term_;  // its number
  report::Progress progress_;
  JobRecording recording_;
  // The heartbeat whose answer asks for the distribution of gradients, which TensorBoard shows
  // (GradientReport); 0: none yet.
  uint64_t gradients_call_ = 0;
  Time gradients_due_{0};
  const Callbacks callbacks_;
  JobWarnings warnings_;
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
