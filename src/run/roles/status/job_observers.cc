#include "run/roles/status/job_observers.h"

#include <chrono>
#include <future>
#include <utility>
#include <variant>

namespace leat::roles {
namespace {

// At the end of the job, for a disk that TensorBoard's files are on.
constexpr Duration kLastPoints = std::chrono::seconds(5);
// At the end, for a disk that is busy.
constexpr Duration kLastRecord = std::chrono::seconds(2);
// Half an interval between two statuses: a record that is due in less is stored at once.
constexpr Duration kEarlyRecord = std::chrono::milliseconds(50);

// Not while slices are awaited: then it is not known how far the job is.
bool Trains(const protocol::CoordinatorStatus& status) {
  using Phase = protocol::CoordinatorStatus::Phase;
  return status.phase != Phase::kWaitingForServers && status.phase != Phase::kWaitingForWorkers;
}

}  // namespace

JobObservers::JobObservers(net::Loop& loop, const CoordinatorOptions& options, std::string directory,
                           std::unique_ptr<tensorboard::RunWriter> tensorboard)
    : loop_(loop),
      metrics_(options.metrics.get()),
      tensorboard_(std::move(tensorboard)),
      directory_(std::move(directory)),
      monitor_(options.monitor != nullptr ? options.monitor : std::make_shared<observe::JobMonitor>()) {}

JobObservers::~JobObservers() {
  history_thread_.End();
  monitor_->SetLive(false);
}

void JobObservers::StartHistory() {
  history_thread_.Post([this] { history_.emplace(directory_, monitor_); });
}

void JobObservers::StartMetrics(Show show) {
  if (metrics_ == nullptr) return;
  metrics_->status().Set(
      [&loop = loop_, show = std::move(show)](std::function<void(report::JobStatus)> done) {
        loop.Post([show, done = std::move(done)] { done(show()); });
      });
  // The coordinator's loop runs no kernels.
  metrics_->liveness().Watch(loop_.Now(), [] { return uint64_t{0}; });
}

void JobObservers::StopMetrics() {
  if (metrics_ == nullptr) return;
  metrics_->liveness().Unwatch();
  metrics_->status().Set(nullptr);
}

void JobObservers::OnTurn(Time now) {
  if (metrics_ != nullptr) metrics_->liveness().Turned(now);
}

void JobObservers::OnGradients(const protocol::ControlRequest& request) {
  const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request);
  if (tensorboard_ != nullptr && worker != nullptr && !worker->gradients.empty())
    tensorboard_->OnGradients(worker->gradients);
}

void JobObservers::OnStatus(Time now, const protocol::CoordinatorStatus& status, const Show& show) {
  if (tensorboard_ != nullptr && tensorboard_->Due(now) && Trains(status))
    tensorboard_->OnStatus(now, show());
  StoreHistory(now, show);
}

void JobObservers::StoreHistory(Time now, const Show& show) {
  if (now - last_stored_ < observe::Recorder::kInterval - kEarlyRecord || history_busy_.exchange(true))
    return;
  last_stored_ = now;
  history_thread_.Post([this, time = UnixSeconds(now), shown = show()] {
    history_->OnStatus(time, shown);
    history_busy_ = false;
  });
}

void JobObservers::OnCheckpoint(const protocol::Manifest& manifest) {
  if (tensorboard_ != nullptr) tensorboard_->OnCheckpoint(manifest.directory, manifest);
}

void JobObservers::Finish(Time now, const report::JobStatus& summary) {
  const auto done = std::make_shared<std::promise<void>>();
  history_thread_.Post([this, done, time = UnixSeconds(now), summary] {
    history_->Finish(time, summary);
    done->set_value();
  });
  done->get_future().wait_for(kLastRecord);
  if (tensorboard_ != nullptr) tensorboard_->Finish(loop_.Now(), summary, kLastPoints);
}

}  // namespace leat::roles
