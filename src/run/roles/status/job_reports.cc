#include "run/roles/status/job_reports.h"

#include <utility>

#include "base/log.h"
#include "run/roles/role.h"
#include "run/roles/status/job_progress.h"

namespace leat::roles {

JobReports::JobReports(net::Loop& loop, const job::Job& job, const CoordinatorOptions& options, uint64_t term,
                       const std::string& directory, std::unique_ptr<tensorboard::RunWriter> tensorboard,
                       DriftResponse::Callbacks callbacks)
    : loop_(loop),
      job_(job),
      options_(options),
      term_(protocol::NumberOf(term)),
      progress_(ProgressOptions(job, options)),
      recording_(term_, progress_),
      gradients_(options.tensorboard_gradients),
      drift_(loop, job.drift, std::move(callbacks)),
      observers_(loop, options, directory, std::move(tensorboard)) {}

void JobReports::OnStart(Time now, const std::string& address,
                         const std::vector<protocol::MemberJoined>& taken_over) {
  spdlog::info("coordinator of job '{}' serves on {} in term {}", job_.name, address, term_);
  if (options_.metrics != nullptr) spdlog::info("metrics at {}", options_.metrics->address());
  if (options_.scaler != nullptr)
    spdlog::info("KEDA is told at {} how many workers the job wants", options_.scaler->address());
  for (const auto& joined : taken_over) {
    protocol::JoinRequest known;
    known.role = joined.member.role;
    known.host = joined.host;
    known.pid = joined.pid;
    progress_.OnJoin(now, joined.member.node, known);
  }
  if (!taken_over.empty())
    spdlog::info("continues with {} members of the former coordinator", taken_over.size());
  for (const auto& warning : PlacementWarnings(job_)) spdlog::warn("{}", warning);
}

void JobReports::OnJoin(Time now, const protocol::JoinRequest& request, const protocol::JoinReply& joined) {
  progress_.OnJoin(now, joined.node, request);
  spdlog::info("{} {} joined as node {} (pid {} on {})",
               request.standby ? "standby" : protocol::Name(request.role), joined.index, joined.node.value,
               request.pid, request.host);
}

void JobReports::OnRequest(Time now, uint64_t call, const protocol::ControlRequest& request) {
  recording_.OnHeartbeat(call, request);
  gradients_.OnHeartbeat(now, call, request);
  RecordProgress(now, request, &progress_);
  observers_.OnGradients(request);
  drift_.OnAlarms(progress_.TakeAlarms());
}

void JobReports::AddOrders(Time now, uint64_t call, protocol::ControlReply* reply) {
  recording_.AddOrder(now, call, reply);
  gradients_.AddOrder(now, call, reply);
}

void JobReports::OnStatus(Time now, const protocol::CoordinatorStatus& status) {
  recording_.OnStatus(now, status.view);
  warnings_.OnStatus(now, status);
  observers_.OnStatus(now, status, [&] { return progress_.Show(now, status, OwnCpuSeconds()); });
  for (const auto& notice : progress_.TakeShareNotices())
    notice.over ? spdlog::info("over: {}", notice.text) : spdlog::warn("{}", notice.text);
  warnings_.OnFailedCheckpoints(status);
}

void JobReports::OnCheckpoint(const protocol::Manifest& manifest, std::optional<Time> begin) {
  if (begin) recording_.OnCheckpoint(manifest.id, *begin, loop_.Now());
  observers_.OnCheckpoint(manifest);
}

report::JobStatus JobReports::Show(Time now, const protocol::CoordinatorStatus& status) {
  progress_.OnStatus(now, status);  // or the lag of partitions would be that of the last tick
  return progress_.Show(now, status, OwnCpuSeconds());
}

Status JobReports::CheckDeadLetters(const protocol::CoordinatorStatus& status) const {
  return roles::CheckDeadLetters(job_, status, progress_);
}

void JobReports::Finish(const report::JobStatus& summary) {
  WriteSummary(job_.directory, summary);
  observers_.Finish(loop_.Now(), summary);
}

}  // namespace leat::roles
