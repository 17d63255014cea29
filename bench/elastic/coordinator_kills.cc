// Coordinators that are killed while workers train, and started again at once or replaced by a standby.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cluster.h"
#include "frame/report.h"
#include "frame/session.h"
#include "rows.h"
#include "step_watch.h"

namespace leat::bench {
namespace {

constexpr double kMaxLostRestart = 1, kMaxLostStandby = 3;  // seconds of training
constexpr double kBefore = 4, kAfter = 8;                   // seconds around a kill
constexpr double kReport = 1;                               // a worker that trains reports more often
constexpr double kFirstKill = 20, kLastKill = 300;
constexpr int kKillWorkers = 3, kKillServers = 2;

// A finite job: at its end, what has been trained is compared with the stream. Splits are short, so that
// workers have nothing left to train soon after the coordinator is gone.
CountingJob JobOf(const std::string& strategy, int kills) {
  CountingJob job{.strategy = strategy,
                  .workers = kKillWorkers,
                  .servers = kKillServers,
                  .split_batches = 8,
                  .step_ms = 20};
  const double seconds = kFirstKill + kills * (kBefore + kAfter);
  job.epochs =
      static_cast<int>(std::ceil(seconds * kKillWorkers * job.batch_size * 1e3 / job.step_ms / job.rows()));
  return job;
}

// The seconds of training that a worker has lost from `kill` to `until`: the time in which it could have
// trained more at its usual pace.
double LostBy(const Growth& steps, double kill, double until) {
  const double rate = steps.Rate(kill - kBefore, kill);
  if (rate <= 0) Fail("a worker did not train before the coordinator was killed");
  const auto before = steps.Before(kill);
  auto after = steps.After(until);
  if (after.at == 0) after = {until, steps.Before(until).value};  // it is not at work again
  return std::max(0.0, after.at - before.at - (after.value - before.value) / rate);
}

void MeasureCoordinatorKills(Report& report, const ElasticOptions& options, bool standby) {
  for (const char* strategy : {"async", "sync", "allreduce"}) {
    const Scratch scratch("elastic");
    Cluster cluster(scratch, "coordinators", JobOf(strategy, options.runs));
    if (strategy != std::string("allreduce")) {
      for (int i = 0; i < kKillServers; ++i) cluster.Start("ps");
    }
    for (int i = 0; i < kKillWorkers; ++i) cluster.Start("worker");
    StepWatch watch(cluster.addresses());
    const auto all_train = [](const Json& status) {
      const auto workers = WorkersIn(status);
      return workers.size() == kKillWorkers &&
             std::ranges::all_of(workers, [](const auto& w) { return w.second.value("steps", 0) > 0; });
    };
    cluster.WaitFor("not all workers train", all_train);
    std::vector<double> lost;
    for (int run = 0; run < options.runs; ++run) {
      if (standby) {
        watch.AddAddress(cluster.StartStandbyCoordinator());
        cluster.WaitFor("there is no standby", [](const Json& status) {
          return std::ranges::any_of(status.at("members"),
                                     [](const Json& member) { return member.at("role") == "standby"; });
        });
      }
      StepWatch::Sleep(kBefore);
      const double kill = StepWatch::Now();
      cluster.KillCoordinator();
      if (!standby) cluster.RestartCoordinator();
      StepWatch::Sleep(kAfter + kReport);
      const auto workers = watch.workers();
      double most = 0;
      for (const auto& [pid, steps] : workers) most = std::max(most, LostBy(steps, kill, kill + kAfter));
      lost.push_back(most);
      cluster.WaitFor("not all workers train", all_train);
    }
    const Json summary = cluster.WaitForEnd(kLastKill);
    const std::string name =
        std::string(strategy) + (standby ? ", standby takes over" : ", coordinator restarted");
    report.Add(WorstRow(name + ": training lost by a worker", lost, "s",
                        ValueAtMost(standby ? kMaxLostStandby : kMaxLostRestart)));
    const double trained = summary.at("since_start").at("events").get<double>();
    report.Add({.name = name + ": trained again",
                .value = std::abs(trained - summary.at("events").get<double>()),
                .unit = "events",
                .bound = ValueAtMost(0)});
    report.Add({.name = name + ": lost or counted twice",
                .value = cluster.Miscounted(summary),
                .unit = "events",
                .bound = ValueAtMost(0)});
  }
}

}  // namespace

void MeasureRestartedCoordinators(Report& report, const ElasticOptions& options) {
  MeasureCoordinatorKills(report, options, false);
}

void MeasureStandbyCoordinators(Report& report, const ElasticOptions& options) {
  MeasureCoordinatorKills(report, options, true);
}

}  // namespace leat::bench
