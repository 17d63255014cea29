#include "run/roles/status/job_reports.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <system_error>
#include <variant>

#include "base/log.h"
#include "job/model.h"
#include "net/address.h"
#include "run/roles/role.h"
#include "stream/dead_letters.h"

namespace leat::roles {
namespace {

// From one worker's gradients to the next, and for the answer to the question.
constexpr Duration kGradientsPause = std::chrono::seconds(10);
// A wait that lasts for so long is logged.
constexpr Duration kLoggedWait = std::chrono::seconds(1);

// Logs troubles that have come, and those that are over. `logged`: those there were before.
template <class About>
void LogChanges(std::map<About, std::string> now, std::map<About, std::string>* logged) {
  for (const auto& [about, text] : now) {
    if (!logged->contains(about)) spdlog::warn("{}", text);
  }
  for (const auto& [about, text] : *logged) {
    if (!now.contains(about)) spdlog::info("over: {}", text);
  }
  *logged = std::move(now);
}

// Warnings about a placement that puts too much on one server.
std::vector<std::string> PlacementWarnings(const job::Job& job) {
  return job.servers > 0 ? job.PlacementPlan().warnings : std::vector<std::string>();
}

report::Progress::Options ProgressOptions(const job::Job& job, const CoordinatorOptions& options) {
  return {.job = job.name,
          .task = job.model->task(),
          .labels = job.model->labels(),
          .truth = job.schema.has_truth(),
          .window = job.metrics_window,
          .fading = job.fading,
          .drift = job.drift,
          .strategy = std::string(protocol::Name(job.strategy.kind)),
          .epochs = job.stream->epochs,
          .warnings = PlacementWarnings(job),
          .directory = job.directory,
          .metrics = options.metrics != nullptr ? options.metrics->address() : "",
          .dashboard = options.dashboard,
          .shares = report::WorkerShares::Options{.layout = job::ShareLayoutOf(job.schema, *job.model),
                                                  .window = job.metrics_window,
                                                  .strategy = job.strategy},
          // Without servers, workers have the slices.
          .table = job.servers > 0 ? std::make_shared<const protocol::SliceTable>(job.Slices()) : nullptr,
          .optimizer = job.optimizer};
}

// Adds figures that a member reports in its heartbeat.
void RecordProgress(Time now, const protocol::ControlRequest& request, report::Progress* progress) {
  if (const std::string metrics = protocol::MetricsIn(request);
      !metrics.empty() && net::ParseAddress(metrics).ok())
    progress->OnMetrics(protocol::NodeOf(request), metrics);
  if (const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request)) {
    progress->OnWorker(now, worker->node, worker->progress);
    if (worker->member_report) progress->OnMemberReport(worker->node, *worker->member_report);
  } else if (const auto* server = std::get_if<protocol::ServerHeartbeat>(&request)) {
    progress->OnServer(now, server->node, server->progress);
    for (const auto& ledger : server->ledgers) progress->OnUpdates(ledger.version);
  } else if (const auto* bots = std::get_if<protocol::BotsHeartbeat>(&request)) {
    progress->OnBots(now, bots->node, *bots);
  } else if (const auto* feed = std::get_if<protocol::FeedHeartbeat>(&request)) {
    progress->OnFeed(now, feed->node, *feed);
  } else if (const auto* serve = std::get_if<protocol::ServeHeartbeat>(&request)) {
    progress->OnServe(now, serve->node, *serve);
  }
}

// Writes summary.json into the job's directory, or removes that of an earlier run.
void WriteSummary(const std::string& directory, const report::JobStatus& summary) {
  const std::string path = directory + "/summary.json";
  std::ofstream out(path + ".tmp");
  out << report::ToJson(summary) << "\n";
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(path + ".tmp", path, error);
  if (out && !error) return;
  spdlog::error("{} cannot be written", path);
  std::filesystem::remove(path, error);  // an earlier run's would be taken for this one's
}

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

JobReports::JobReports(net::Loop& loop, const job::Job& job, const CoordinatorOptions& options, uint64_t term,
                       const std::string& directory, std::unique_ptr<tensorboard::RunWriter> tensorboard,
                       Callbacks callbacks)
    : loop_(loop),
      job_(job),
      options_(options),
      term_(protocol::NumberOf(term)),
      progress_(ProgressOptions(job, options)),
      recording_(term_, progress_),
      callbacks_(std::move(callbacks)),
      metrics_(options.metrics.get()),
      tensorboard_(std::move(tensorboard)),
      directory_(directory),
      monitor_(options.monitor != nullptr ? options.monitor : std::make_shared<observe::JobMonitor>()) {}

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
  history_thread_.Post([this] { history_.emplace(directory_, monitor_); });
}

void JobReports::StartMetrics(std::function<report::JobStatus()> show) {
  if (metrics_ == nullptr) return;
  metrics_->status().Set(
      [&loop = loop_, show = std::move(show)](std::function<void(report::JobStatus)> done) {
        loop.Post([show, done = std::move(done)] { done(show()); });
      });
  // The coordinator's loop runs no kernels.
  metrics_->liveness().Watch(loop_.Now(), [] { return uint64_t{0}; });
}

void JobReports::StopMetrics() {
  if (metrics_ == nullptr) return;
  metrics_->liveness().Unwatch();
  metrics_->status().Set(nullptr);
}

void JobReports::StoreHistory(Time now, const std::function<report::JobStatus()>& show) {
  if (now - last_stored_ < observe::Recorder::kInterval - kEarlyRecord || history_busy_.exchange(true))
    return;
  last_stored_ = now;
  history_thread_.Post([this, time = UnixSeconds(now), shown = show()] {
    history_->OnStatus(time, shown);
    history_busy_ = false;
  });
}

void JobReports::OnJoin(Time now, const protocol::JoinRequest& request, const protocol::JoinReply& joined) {
  progress_.OnJoin(now, joined.node, request);
  spdlog::info("{} {} joined as node {} (pid {} on {})",
               request.standby ? "standby" : protocol::Name(request.role), joined.index, joined.node.value,
               request.pid, request.host);
}

void JobReports::OnRequest(Time now, uint64_t call, const protocol::ControlRequest& request) {
  recording_.OnHeartbeat(call, request);
  RecordProgress(now, request, &progress_);
  const auto* worker = std::get_if<protocol::WorkerHeartbeat>(&request);
  if (tensorboard_ != nullptr && worker != nullptr && !worker->gradients.empty())
    tensorboard_->OnGradients(worker->gradients);
  // Gradients come from the first worker that reports, once in a while. If it trains nothing more, another
  // one is asked later.
  if (worker != nullptr && options_.tensorboard_gradients && now >= gradients_due_ &&
      worker->progress.steps > 0)
    gradients_call_ = call;
  OnAlarms(progress_.TakeAlarms());
}

void JobReports::OnAlarms(const std::vector<report::DriftAlarm>& alarms) {
  if (alarms.empty()) return;
  for (const auto& alarm : alarms) {
    spdlog::warn("drift: alarm {} of {} on {} at event {}; the mean before it was {:.4f}", alarm.number,
                 job_.drift->detector_name(), fields::NameOf(job_.drift->on), alarm.event, alarm.mean);
  }
  // Later, because the request with the alarm is not handled yet.
  using Alarm = metrics::DriftConfig::Alarm;
  if (job_.drift->alarm == Alarm::kRaiseRate) loop_.Post([this] { RaiseRate(); });
  if (job_.drift->alarm != Alarm::kCheckpoint) return;
  loop_.Post([this] {
    callbacks_.request(protocol::AdminRequest{protocol::AdminRequest::Kind::kCheckpoint},
                       [](const protocol::ControlReply& reply) {
                         const auto* done = std::get_if<protocol::AdminReply>(&reply);
                         if (done != nullptr && !done->status.ok())
                           spdlog::warn("no checkpoint after an alarm of drift: {}", done->status.ToString());
                       });
  });
}

void JobReports::RaiseRate() {
  auto actions = callbacks_.raise();
  for (const auto& action : actions) {
    const auto* journal = std::get_if<protocol::AppendJournal>(&action);
    const auto* raised = journal != nullptr ? std::get_if<protocol::RateRaised>(&journal->record) : nullptr;
    if (raised == nullptr) continue;
    std::string where;
    for (size_t p = 0; p < raised->first.size(); ++p) {
      where += (p == 0 ? "partition " : ", ") + std::to_string(p) + " from offset " +
               std::to_string(raised->first[p].offset) + " to " + std::to_string(raised->last[p].offset);
    }
    spdlog::info("drift: the learning rate times {} for {}", raised->factor, where);
  }
  callbacks_.commit(std::move(actions));
}

void JobReports::AddOrders(Time now, uint64_t call, protocol::ControlReply* reply) {
  recording_.AddOrder(now, call, reply);
  auto* worker = std::get_if<protocol::WorkerHeartbeatReply>(reply);
  if (call != gradients_call_ || worker == nullptr) return;
  worker->gradients_wanted = true;
  gradients_due_ = now + kGradientsPause;
}

void JobReports::OnStatus(Time now, const protocol::CoordinatorStatus& status) {
  recording_.OnStatus(now, status.view);
  warnings_.OnStatus(now, status);
  const auto show = [&] { return progress_.Show(now, status, OwnCpuSeconds()); };
  if (tensorboard_ != nullptr && tensorboard_->Due(now) && Trains(status))
    tensorboard_->OnStatus(now, show());
  StoreHistory(now, show);
  for (const auto& notice : progress_.TakeShareNotices())
    notice.over ? spdlog::info("over: {}", notice.text) : spdlog::warn("{}", notice.text);
  warnings_.OnFailedCheckpoints(status);
}

void JobReports::OnCheckpoint(const protocol::Manifest& manifest, std::optional<Time> begin) {
  if (begin) recording_.OnCheckpoint(manifest.id, *begin, loop_.Now());
  if (tensorboard_ != nullptr) tensorboard_->OnCheckpoint(manifest.directory, manifest);
}

report::JobStatus JobReports::Show(Time now, const protocol::CoordinatorStatus& status) {
  progress_.OnStatus(now, status);  // or the lag of partitions would be that of the last tick
  return progress_.Show(now, status, OwnCpuSeconds());
}

// At the end of the stream the limit of dead letters holds for all of it, however short it was.
Status JobReports::CheckDeadLetters(const protocol::CoordinatorStatus& status) const {
  const auto dead = progress_.dead_letters(status);
  const uint64_t events = status.events + dead.count;
  if (!stream::DeadLetterRate::Above(job_.dead_letter_rate, events, dead.count)) return {};
  return {
      Code::kInvalidArgument,
      "too many dead letters: " + stream::DeadLetterRate::Share(job_.dead_letter_rate, events, dead.count) +
          ", the last: " + dead.last};
}

void JobReports::Finish(const report::JobStatus& summary) {
  WriteSummary(job_.directory, summary);
  const auto done = std::make_shared<std::promise<void>>();
  history_thread_.Post([this, done, time = UnixSeconds(loop_.Now()), summary] {
    history_->Finish(time, summary);
    done->set_value();
  });
  done->get_future().wait_for(kLastRecord);
  if (tensorboard_ != nullptr) tensorboard_->Finish(loop_.Now(), summary, kLastPoints);
}

void JobWarnings::OnStatus(Time now, const protocol::CoordinatorStatus& status) {
  std::map<std::pair<NodeId, NodeId>, std::string> unreachable;
  for (const auto& [worker, peer] : status.unreachable) {
    const auto *from = status.view.Find(worker), *to = status.view.Find(peer);
    if (from == nullptr || to == nullptr) continue;
    unreachable[{worker, peer}] =
        protocol::Name(*from) + " cannot reach " + protocol::Name(*to) + " at " + to->address;
  }
  LogChanges(std::move(unreachable), &unreachable_);
  LogChanges(status.misplaced, &misplaced_);
  // Once for each reason to wait that lasts.
  if (status.waiting_for != waits_for_) {
    waits_for_ = status.waiting_for;
    waits_since_ = now;
    wait_is_logged_ = false;
  } else if (!waits_for_.empty() && !wait_is_logged_ && now - waits_since_ > kLoggedWait) {
    wait_is_logged_ = true;
    spdlog::warn("the job waits for {}", waits_for_);
  }
}

void JobWarnings::OnFailedCheckpoints(const protocol::CoordinatorStatus& status) {
  if (status.failed_checkpoints <= failed_checkpoints_) return;
  spdlog::warn("a checkpoint failed ({} since the start): {}", status.failed_checkpoints,
               status.checkpoint_failure);
  failed_checkpoints_ = status.failed_checkpoints;
}

}  // namespace leat::roles
