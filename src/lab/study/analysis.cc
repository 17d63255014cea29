#include "lab/study/analysis.h"

#include <algorithm>

#include "base/text.h"

namespace leat::study {

namespace {

// From here on a resource is as good as full: the rest is lost to the start and the end of a run, and to
// gaps.
constexpr double kFull = 0.8;
// Waiting for input or for messages matters from here on.
constexpr double kMuchWaiting = 0.2;
constexpr double kSlow = 1.3;
// Factor by which the events to the target have to grow, with more workers, to count as more.
constexpr double kMoreEvents = 1.1;

double Worth(const SeriesPoint& point, bool target) {
  if (!target) return point.events_per_s;
  return point.target_s && *point.target_s > 0 ? 1 / *point.target_s : 0;
}

std::string Percent(double share) {
  return Formatted("%.0f %%", 100 * share);
}

}  // namespace

std::string Explain(Factor factor, const SeriesPoint& point) {
  const Usage& usage = point.usage;
  switch (factor) {
    case Factor::kInput:
      return "workers have nothing to train for " + Percent(usage.input_wait) +
             " of the time; the input's link is used to " + Percent(usage.source_link);
    case Factor::kServerLink:
      return "the busiest server's link is used to " + Percent(usage.server_link) +
             ": more servers, a faster link or another placement help";
    case Factor::kServerCpu:
      return "the busiest server computes for " + Percent(usage.server_cpu) +
             " of the time: more servers help";
    case Factor::kWorkerLink:
      return "the workers' links are used to " + Percent(usage.member_link) +
             ": a faster link or larger batches help";
    case Factor::kSlowestWorker: {
      return Formatted("the slowest worker takes %.1f times as long as the others, who wait for it",
                       usage.slowest);
    }
    case Factor::kStaleness: {
      return Formatted("gradients are %.1f updates old on average, so more events are needed",
                       usage.staleness);
    }
    case Factor::kBatch:
      if (point.target_events)
        return "the joint batch of all workers is so large that more events are needed";
      return "workers wait for messages for " + Percent(usage.wait) +
             " of the time, though no link is full: larger batches help";
    case Factor::kModel:
      return "workers compute for " + Percent(usage.compute) + " of the time: further workers help as much";
  }
  return "";
}

Factor LimitingFactor(const SeriesPoint& point, const SeriesPoint* before) {
  const Usage& usage = point.usage;
  // Learning: the speed grows, and yet the target comes no sooner.
  if (before != nullptr && before->target_events && point.target_events &&
      *point.target_events > kMoreEvents * *before->target_events) {
    const double more_events = *point.target_events / *before->target_events;
    const double faster = before->events_per_s > 0 ? point.events_per_s / before->events_per_s : 1;
    // The larger of the two losses: what more events cost, or what the speed lacks.
    const double expected = static_cast<double>(point.workers) / std::max(1u, before->workers);
    if (more_events > expected / std::max(faster, 1e-9))
      return usage.stepped ? Factor::kBatch : Factor::kStaleness;
  }
  if (usage.input_wait > kMuchWaiting || usage.source_link > kFull) return Factor::kInput;
  if (usage.server_link > kFull && usage.server_link >= usage.server_cpu) return Factor::kServerLink;
  if (usage.server_cpu > kFull) return Factor::kServerCpu;
  if (usage.member_link > kFull) return Factor::kWorkerLink;
  if (usage.stepped && usage.slowest > kSlow) return Factor::kSlowestWorker;
  if (usage.wait > kMuchWaiting) {
    // Nothing is full, but bursts of messages queue: at the busiest resource, if any is busy for half of the
    // time.
    const double busiest = std::max({usage.server_link, usage.server_cpu, usage.member_link});
    if (busiest < kFull / 2) return Factor::kBatch;
    if (busiest == usage.server_link) return Factor::kServerLink;
    return busiest == usage.server_cpu ? Factor::kServerCpu : Factor::kWorkerLink;
  }
  return Factor::kModel;
}

std::optional<SweetSpot> FindSweetSpot(const std::vector<SeriesPoint>& series, double gain, bool target) {
  const double first = Worth(series.front(), target) / std::max(1u, series.front().workers);
  if (!(first > 0)) {
    // The first point that is worth something takes its place.
    if (series.size() == 1) return std::nullopt;
    auto rest = FindSweetSpot({series.begin() + 1, series.end()}, gain, target);
    if (rest) ++rest->index;
    return rest;
  }
  // Worth that each worker between two points adds.
  const auto added = [&](size_t from, size_t to) {
    const double more = Worth(series[to], target) - Worth(series[from], target);
    return more / (static_cast<double>(series[to].workers) - series[from].workers) / first;
  };
  SweetSpot spot;
  for (size_t i = 1; i < series.size(); ++i) {
    if (added(spot.index, i) >= gain) spot.index = i;
  }
  spot.at_end = spot.index + 1 == series.size();
  if (spot.at_end) {
    spot.factor = LimitingFactor(series.back(), series.size() > 1 ? &series[series.size() - 2] : nullptr);
  } else {
    spot.marginal = added(spot.index, spot.index + 1);
    spot.factor = LimitingFactor(series[spot.index + 1], &series[spot.index]);
  }
  return spot;
}

}  // namespace leat::study
