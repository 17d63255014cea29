#include "lab/study/grid/plan.h"

#include <algorithm>

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
