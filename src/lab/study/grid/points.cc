#include "lab/study/grid/points.h"

#include <algorithm>
#include <cmath>

#include "base/fields/json.h"
#include "base/text.h"

namespace leat::study {

namespace {

constexpr double kStart = 3;       // seconds to start the processes of a real point, and to end them
constexpr double kProcess = 40e6;  // bytes of a process without its job
constexpr double kMessages = 1e6;  // messages that are simulated in a second
constexpr double kCopies = 5;      // copies of the parameters in a process: values, gradients, slots, buffers

std::string PlanTimeText(double seconds) {
  if (seconds < 90) return Formatted("%.0f s", seconds);
  return seconds < 5400 ? Formatted("%.0f min", seconds / 60) : Formatted("%.1f h", seconds / 3600);
}

Mode ModeOf(const StudyFile& study, const PlanOptions& options, const GridPoint& point) {
  const Mode simulated = options.computed || study.target ? Mode::kComputed : Mode::kModelled;
  if (options.simulated) return simulated;
  const bool fits = options.oversubscribe || point.workers + point.servers <= options.cores;
  const bool link = study.links[point.link] == "unlimited" || options.on_hosts;
  // Input and slow workers are only simulated.
  return fits && link && study.slow.empty() && study.inputs[point.input] == "unlimited" ? Mode::kReal
                                                                                        : simulated;
}

// Simulated points run one per core.
double SecondsOfPlan(const std::vector<PlannedPoint>& plan, uint32_t cores) {
  double real = 0, simulated = 0, longest = 0;
  for (const PlannedPoint& point : plan) {
    if (point.done) continue;
    (point.mode == Mode::kReal ? real : simulated) += point.seconds;
    if (point.mode != Mode::kReal) longest = std::max(longest, point.seconds);
  }
  return real + std::max(simulated / std::max(1u, cores), longest);
}

}  // namespace

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

Result<std::vector<PlannedPoint>> MakePlan(const StudyFile& study, const PlanOptions& options,
                                           const JobFacts& facts) {
  std::vector<PlannedPoint> plan;
  for (const GridPoint& point : PointsOf(study)) {
    PlannedPoint& planned = plan.emplace_back();
    planned.point = point;
    planned.mode = ModeOf(study, options, point);
    planned.events = facts.events;
    if (planned.mode == Mode::kModelled) {
      if (study.events > 0) planned.events = static_cast<double>(study.events);
      if (study.steps > 0) planned.events = static_cast<double>(study.steps) * point.workers * point.batch;
    }
    const double batches = planned.events / std::max(1u, point.batch);
    const auto measured = facts.batch_s.find(point.batch);
    const double computing = batches * (measured == facts.batch_s.end() ? 0.001 : measured->second);
    const double model = kCopies * facts.model_bytes;
    switch (planned.mode) {
      case Mode::kReal:
        planned.seconds = kStart + computing / std::min(point.workers, std::max(1u, options.cores));
        planned.memory_bytes = (1.0 + point.workers + point.servers) * (kProcess + model);
        if (planned.memory_bytes > options.memory_bytes) {
          return Status(Code::kInvalidArgument,
                        study.name + ": " + KeyOf(study, point) + " as real processes needs " +
                            Formatted("%.1f GB of memory, %.1f GB are available; see --simulated",
                                      planned.memory_bytes / 1e9, options.memory_bytes / 1e9));
        }
        break;
      case Mode::kComputed:
        planned.seconds = 1 + computing;
        planned.memory_bytes = kProcess + (point.workers + 1) * model;
        break;
      case Mode::kModelled: {
        // A ring sends to each member, twice.
        const double per_step = point.servers > 0 ? 2.0 * point.servers : 2.0 * (point.workers - 1);
        planned.seconds = 0.5 + batches * per_step / kMessages;
        planned.memory_bytes = kProcess + 2e5 * point.workers;
        break;
      }
    }
  }
  return plan;
}

double SecondsLeft(const std::vector<PlannedPoint>& plan, double estimated_done, double took,
                   uint32_t cores) {
  const double correction = estimated_done > 0 ? took / estimated_done : 1;
  return SecondsOfPlan(plan, cores) * correction;
}

std::string Render(const StudyFile& study, const std::vector<PlannedPoint>& plan, uint32_t cores) {
  size_t real = 0, simulated = 0, done = 0;
  double memory = 0, largest = 0;
  for (const PlannedPoint& point : plan) {
    (point.mode == Mode::kReal ? real : simulated)++;
    if (point.done) ++done;
    memory = std::max(memory, point.memory_bytes);
    if (point.mode != Mode::kReal) largest = std::max(largest, point.memory_bytes);
  }
  memory = std::max(memory, largest * cores);
  std::string all =
      Formatted("study '%s': %zu points, %zu real and %zu simulated; about %s, at most %.1f GB of memory\n",
                study.name.c_str(), plan.size(), real, simulated,
                PlanTimeText(SecondsOfPlan(plan, cores)).c_str(), memory / 1e9);
  if (done > 0) all += "  " + std::to_string(done) + " of them are done already\n";
  return all;
}

}  // namespace leat::study
