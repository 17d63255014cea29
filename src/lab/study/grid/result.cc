#include "lab/study/grid/result.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/fields/json.h"

namespace leat::study {

void Fill(const report::JobStatus& summary, double bytes_per_s, double model_bytes, bool stepped,
          PointResult* result) {
  const auto known = [](double x, double otherwise = 0) { return std::isfinite(x) ? x : otherwise; };
  result->events = static_cast<double>(summary.events);
  result->seconds = known(summary.training_s, known(summary.wall_s));
  if (result->events_per_s == 0) result->events_per_s = summary.events_per_s;
  if (result->events_per_s == 0 && result->seconds > 0)
    result->events_per_s = result->events / result->seconds;
  for (const auto& accuracy :
       {summary.test ? summary.test->test_accuracy : std::nullopt, summary.quality.accuracy}) {
    if (!result->accuracy && accuracy && std::isfinite(*accuracy)) result->accuracy = accuracy;
  }
  if (std::isfinite(summary.quality.loss)) result->loss = summary.quality.loss;
  Usage& usage = result->usage;
  usage.stepped = stepped;
  usage.staleness = known(summary.staleness_mean);
  const double seconds = result->seconds;
  if (!(seconds > 0)) return;
  std::vector<double> steps;
  double compute = 0, wait = 0, steps_done = 0;
  size_t workers = 0;
  result->server_bytes.clear();
  for (const report::MemberStatus& member : summary.members) {
    if (member.name.role == "ps") {
      const auto in = static_cast<double>(member.bytes_in.value_or(0)),
                 out = static_cast<double>(member.bytes_out.value_or(0));
      result->server_bytes.push_back(in + out);
      if (bytes_per_s > 0)
        usage.server_link = std::max(usage.server_link, std::max(in, out) / seconds / bytes_per_s);
      usage.server_cpu = std::max(usage.server_cpu, member.cpu_s.value_or(0) / seconds);
    } else if (member.name.role == "worker") {
      ++workers;
      if (!member.worker) continue;
      const double step = known(member.worker->step_ms) * 1e-3;
      const auto done = static_cast<double>(member.worker->progress.steps);
      if (step > 0) steps.push_back(step);
      compute += step * done;
      wait += member.worker->progress.wait_seconds;
      steps_done = std::max(steps_done, done);
    }
  }
  if (workers == 0) return;
  const double all = seconds * static_cast<double>(workers);
  usage.compute = std::min(1.0, compute / all);
  usage.wait = std::min(1.0, wait / all);
  usage.input_wait = std::max(0.0, 1 - usage.compute - usage.wait);
  if (!steps.empty()) {
    std::ranges::sort(steps);
    usage.slowest = steps.back() / steps[(steps.size() - 1) / 2];
  }
  if (result->server_bytes.empty() && bytes_per_s > 0) {
    const double n = static_cast<double>(workers);
    usage.member_link = steps_done * 2 * (n - 1) / n * model_bytes / seconds / bytes_per_s;
  }
}

double CostOf(const StudyFile& study, const PointResult& result) {
  const double per_hour =
      study.worker_price * result.point.workers + study.server_price * result.point.servers;
  return per_hour / 3600 * result.target_s.value_or(result.seconds);
}

nlohmann::ordered_json ToJson(const StudyFile& study, const PointResult& result) {
  using fields::Json;
  const GridPoint& point = result.point;
  Json json{{"key", KeyOf(study, point)},
            {"workers", point.workers},
            {"ps", point.servers},
            {"batch", point.batch},
            {"strategy", StrategyText(study, point.strategy)},
            {"placement", point.servers > 0 ? Json(PlacementText(study, point.placement)) : Json(nullptr)},
            {"link", study.links[point.link]},
            {"input", study.inputs[point.input]},
            {"mode", fields::NameOf(result.mode)}};
  if (!result.error.empty()) {
    json["error"] = result.error;
    return json;
  }
  json.update(fields::JsonWriter::Value(result));
  if (!study.target) {
    json.erase("target_s");
    json.erase("target_events");
  }
  return json;
}

Result<PointResult> ParseResult(std::string_view text, const GridPoint& point) {
  LEAT_ASSIGN_OR_RETURN(auto result, fields::FromAnyJson<PointResult>(text, "a result", Code::kDataLoss));
  result.point = point;
  if (result.error.empty() && !(result.seconds > 0))
    return Status(Code::kDataLoss, "a result without a time");
  return result;
}

}  // namespace leat::study
