// Workers that join and leave by the dozen while a stepped job runs: its lanes are fixed, and others wait for
// a worker only if it has some.
#include <algorithm>
#include <string>
#include <vector>

#include "cluster.h"
#include "frame/measure.h"
#include "frame/report.h"
#include "frame/session.h"
#include "rows.h"
#include "step_watch.h"

namespace leat::bench {
namespace {

constexpr double kMaxWait = 300;  // ms
constexpr int kFew = 2, kMany = 8;
constexpr double kUsualBeforeChange = 5;  // seconds of usual steps before a change
constexpr double kSettle = 2;             // seconds after it

// Has this number of workers, the first of which stay. Does what the local runner does on `leat scale`.
void Scale(Cluster& cluster, int workers) {
  const auto now = WorkersIn(cluster.Status());
  cluster.Want(workers, {});
  for (auto missing = workers - static_cast<int>(now.size()); missing > 0; --missing) cluster.Start("worker");
  std::vector<std::pair<uint32_t, pid_t>> by_index;
  for (const auto& [pid, worker] : now) by_index.emplace_back(worker.at("index").get<uint32_t>(), pid);
  std::ranges::sort(by_index);
  for (size_t i = static_cast<size_t>(workers); i < by_index.size(); ++i)
    cluster.Terminate(by_index[i].second);
  cluster.WaitFor("the workers do not come or go", [&](const Json& status) {
    const auto there = WorkersIn(status);
    return there.size() == static_cast<size_t>(workers) &&
           std::ranges::all_of(there, [](const auto& w) { return w.second.value("steps", 0) > 0; });
  });
}

// The longest time that one of these workers waited in a change, in ms: its longest step from then on, minus
// the usual one before.
double WaitIn(const StepWatch& watch, const std::vector<pid_t>& survivors, double begin, double end) {
  const auto workers = watch.workers();
  double most = 0;
  for (const pid_t pid : survivors) {
    const Growth& steps = workers.at(pid);
    most = std::max(
        most, steps.LongestPause(begin, end) - Median(steps.Lengths(begin - kUsualBeforeChange, begin)));
  }
  return 1e3 * most;
}

// The last number that a worker has printed.
double GraphsCompiled(const std::string& output) {
  const std::string before = "graphs compiled: ";
  const size_t at = output.rfind(before);
  if (at == std::string::npos) Fail("a worker does not say what it compiles: " + output);
  return std::stod(output.substr(at + before.size()));
}

}  // namespace

void MeasureScaling(Report& report, const ElasticOptions& options) {
  for (const char* type : {"sync", "allreduce"}) {
    const Scratch scratch("elastic");
    // Heartbeats are frequent, because they carry the number of steps.
    Cluster cluster(scratch, "scaling",
                    {.strategy = "{type: " + std::string(type) + ", lanes: " + std::to_string(kMany) + "}",
                     .workers = kFew,
                     .servers = 1,
                     .heartbeat_s = 0.02});
    if (type == std::string("sync")) cluster.Start("ps");
    StepWatch watch(cluster.addresses());
    Scale(cluster, kFew);
    std::vector<pid_t> survivors;
    for (const auto& [pid, worker] : WorkersIn(cluster.Status())) survivors.push_back(pid);
    std::vector<double> joins, leaves;
    double graphs = 0;
    for (int run = 0; run < options.runs; ++run) {
      for (const int workers : {kMany, kFew}) {
        StepWatch::Sleep(kUsualBeforeChange);
        const double begin = StepWatch::Now();
        Scale(cluster, workers);
        StepWatch::Sleep(kSettle);
        (workers == kMany ? joins : leaves).push_back(WaitIn(watch, survivors, begin, StepWatch::Now()));
        for (const auto& [pid, worker] : WorkersIn(cluster.Status()))
          graphs = std::max(graphs, GraphsCompiled(cluster.OutputOf(pid)));
      }
    }
    const std::string name(type);
    report.Add(WorstRow(name + ", 2 to 8 workers: wait", joins, "ms", ValueAtMost(kMaxWait)));
    report.Add(WorstRow(name + ", 8 to 2 workers: wait", leaves, "ms", ValueAtMost(kMaxWait)));
    report.Add({.name = name + ", 2 to 8 to 2 workers: graphs compiled by a worker",
                .value = graphs,
                .unit = "",
                .bound = ValueAtMost(1)});
    report.Add({.name = name + ", 2 to 8 to 2 workers: lost or counted twice",
                .value = cluster.Miscounted(cluster.Stop()),
                .unit = "events",
                .bound = ValueAtMost(0)});
  }
}

}  // namespace leat::bench
