#include "run/roles/status/job_progress.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <variant>

#include "base/log.h"
#include "job/model.h"
#include "net/address.h"
#include "stream/dead_letters.h"

namespace leat::roles {

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

Status CheckDeadLetters(const job::Job& job, const protocol::CoordinatorStatus& status,
                        const report::Progress& progress) {
  const auto dead = progress.dead_letters(status);
  const uint64_t events = status.events + dead.count;
  if (!stream::DeadLetterRate::Above(job.dead_letter_rate, events, dead.count)) return {};
  return {
      Code::kInvalidArgument,
      "too many dead letters: " + stream::DeadLetterRate::Share(job.dead_letter_rate, events, dead.count) +
          ", the last: " + dead.last};
}

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

}  // namespace leat::roles
