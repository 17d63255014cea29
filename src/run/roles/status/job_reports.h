// Reports about a running job: its progress, recordings, gradients, alarms of drift, warnings in the log, and
// observers. Each concern has a class of its own; this one hands them requests, replies and statuses. Loop's
// thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "job/job.h"
#include "net/loop.h"
#include "protocol/coordinator/coordinator.h"
#include "run/roles/recording/gradient_requests.h"
#include "run/roles/recording/job_recording.h"
#include "run/roles/start/coordinator_options.h"
#include "run/roles/status/drift_response.h"
#include "run/roles/status/job_observers.h"
#include "run/roles/status/job_warnings.h"
#include "show/report/progress.h"
#include "show/tensorboard/run_writer.h"

namespace leat::roles {

class JobReports {
 public:
  // `term`: the coordinator's. `directory`: the job's.
  JobReports(net::Loop& loop, const job::Job& job, const CoordinatorOptions& options, uint64_t term,
             const std::string& directory, std::unique_ptr<tensorboard::RunWriter> tensorboard,
             DriftResponse::Callbacks callbacks);

  report::Progress& progress() { return progress_; }
  const report::Progress& progress() const { return progress_; }
  JobRecording& recording() { return recording_; }
  JobObservers& observers() { return observers_; }

  // The coordinator serves at this address from now on, with these members of the former one.
  void OnStart(Time now, const std::string& address, const std::vector<protocol::MemberJoined>& taken_over);
  void OnJoin(Time now, const protocol::JoinRequest& request, const protocol::JoinReply& joined);
  void OnRequest(Time now, uint64_t call, const protocol::ControlRequest& request);
  // Adds orders to record, and questions for gradients.
  void AddOrders(Time now, uint64_t call, protocol::ControlReply* reply);
  // To be called ten times a second, after Progress::OnStatus.
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
  net::Loop& loop_;
  const job::Job& job_;
  const CoordinatorOptions& options_;
  const uint64_t term_;  // its number
  report::Progress progress_;
  JobRecording recording_;
  GradientRequests gradients_;
  DriftResponse drift_;
  JobWarnings warnings_;
  JobObservers observers_;
};

}  // namespace leat::roles
