#include "run/launcher/output/job_text.h"

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/exit_status.h"
#include "base/json/text.h"
#include "base/text.h"
#include "job/model.h"

namespace leat::launcher {

void ExplainFigures(const job::Job& job, report::Display* display) {
  const stream::BotsConfig* bots = job.stream->bots();
  if (bots == nullptr) return;
  const report::StartNotes notes{.bot_events = bots->events,
                                 .bot_rate = bots->rate,
                                 .window = job.metrics_window,
                                 .auc = job.model->task() == nn::Task::kBinary,
                                 .servers = job.servers > 0};
  for (const std::string& line : report::RenderStart(notes)) display->Say(line);
}

void ReportPlacement(const job::Job& job, report::Display* display) {
  if (job.servers < 2) return;
  const protocol::PlacementReport plan = job.PlacementPlan();
  for (size_t i = 0; i < plan.servers.size(); ++i) {
    const auto& server = plan.servers[i];
    display->Say(
        Formatted("ps %zu: %s (%.1f%%)", i, protocol::BytesText(server.bytes).c_str(), server.share * 100));
  }
  for (const std::string& warning : plan.warnings)
    std::fprintf(stderr, "leat: warning: %s\n", warning.c_str());
}

int PrintSummary(const job::Job& job, const RunnerOptions& options, const ProcessFigures& figures) {
  std::ifstream in(job.directory + "/summary.json");
  nlohmann::ordered_json summary = ParsedOrderedJson(std::string(std::istreambuf_iterator<char>(in), {}));
  if (summary.is_discarded()) {
    const char* const directory = job.directory.c_str();
    std::fprintf(
        stderr,
        "leat: the coordinator could not write %s/summary.json; leat train --resume %s writes it once "
        "it can\n",
        directory, directory);
    return ExitStatus::kMayHeal;
  }
  summary["aggregated_compute_s"] = figures.cpu_seconds;
  for (const auto& [role, bytes] : figures.peak_rss)
    summary["peak_rss_mb"][role] = static_cast<double>(bytes) / 1e6;
  summary["stopped"] = figures.stopped;
  if (job.evaluate && summary["checkpoint"].is_string()) {
    auto evaluation = job::Evaluate(job, options.plan);
    if (!evaluation.ok()) {
      std::fprintf(stderr, "leat: evaluation: %s\n", evaluation.status().ToString().c_str());
      return ExitStatusOf(evaluation.status().code());
    }
    if (!evaluation->warning.empty())
      std::fprintf(stderr, "leat: warning: %s\n", evaluation->warning.c_str());
    job::AddToSummary(*evaluation, &summary);
  }
  const std::string text = report::RenderSummary(report::StatusFromJson(JsonText(summary)).value());
  std::fprintf(options.json ? stderr : stdout, "%s", text.c_str());
  if (options.json) std::printf("%s\n", JsonText(summary).c_str());
  return 0;
}

}  // namespace leat::launcher
