// Workers and servers that are killed. Nothing takes their place but what stands by, and nobody tells the
// coordinator: it finds out by itself.
#include <algorithm>
#include <string>
#include <vector>

#include "cluster.h"
#include "frame/report.h"
#include "frame/session.h"
#include "rows.h"
#include "step_watch.h"

namespace leat::bench {
namespace {

constexpr double kMaxPause = 3, kMaxPauseStandby = 2.5;       // seconds of pause after a worker is killed
constexpr double kMaxPauseServer = 5, kMaxPauseReplicas = 3;  // after a server is killed
constexpr double kWatchWorker = 5, kWatchServer = 8;          // after the kill
constexpr double kQuiet = 1;                                  // before the next one
constexpr int kWorkers = 3, kServers = 3;

std::vector<pid_t> PidsOf(const std::map<pid_t, Json>& members) {
  std::vector<pid_t> pids;
  for (const auto& [pid, member] : members) pids.push_back(pid);
  return pids;
}

// A job in which all workers train, and there is a checkpoint.
class KillsJob {
 public:
  KillsJob(const Scratch& scratch, const CountingJob& job, bool standby)
      : standby_(standby), cluster_(scratch, "kills", job) {
    for (int i = 0; i < kServers; ++i) cluster_.Start("ps");
    for (int i = 0; i < kWorkers; ++i) cluster_.Start("worker");
    if (standby) cluster_.Start("worker", true);
    watch_ = std::make_unique<StepWatch>(cluster_.addresses());
    WaitUntilWhole();
  }

  // Returns the longest pause of the other workers, or the time until the standby trains if that is longer.
  double KillWorker() {
    const Json before = cluster_.Status();
    auto survivors = PidsOf(WorkersIn(before));
    const auto successors = PidsOf(WorkersIn(before, true));
    const pid_t victim = survivors.front();
    survivors.erase(survivors.begin());
    const double at = StepWatch::Now();
    cluster_.Kill(victim);
    StepWatch::Sleep(kWatchWorker);
    double pause = watch_->LongestPause(survivors, at, at + kWatchWorker);
    for (const pid_t successor : successors) {
      const double first = watch_->workers()[successor].After(at).at;
      pause = std::max(pause, first > 0 ? first - at : kWatchWorker);
    }
    cluster_.Start("worker", standby_);
    WaitUntilWhole();
    return pause;
  }

  double KillServer() {
    const Json before = cluster_.Status();
    const double at = StepWatch::Now();
    cluster_.Kill(ServersIn(before).begin()->first);
    StepWatch::Sleep(kWatchServer);
    const double pause = watch_->LongestPause(PidsOf(WorkersIn(before)), at, at + kWatchServer);
    cluster_.Start("ps");
    WaitUntilWhole();
    return pause;
  }

  // Stops the job, and returns how many events a parameter has missed or counted twice.
  double Miscounted() { return cluster_.Miscounted(cluster_.Stop()); }

 private:
  void WaitUntilWhole() {
    cluster_.WaitFor("not all members train", [this](const Json& status) {
      const auto workers = WorkersIn(status), servers = ServersIn(status);
      return workers.size() == kWorkers && servers.size() == kServers &&
             WorkersIn(status, true).size() == (standby_ ? 1u : 0u) && status.at("checkpoint").is_string() &&
             status.value("moves", Json::object()).value("planned", 0) == 0 &&
             std::ranges::all_of(workers, [](const auto& w) { return w.second.value("steps", 0) > 0; }) &&
             std::ranges::all_of(servers, [](const auto& s) { return s.second.value("bytes_held", 0) > 0; });
    });
    StepWatch::Sleep(kQuiet);
  }

  const bool standby_;
  Cluster cluster_;
  std::unique_ptr<StepWatch> watch_;
};

void MeasureServers(Report& report, const ElasticOptions& options, int replicas, double most) {
  for (const char* strategy : {"async", "sync"}) {
    const Scratch scratch("elastic");
    KillsJob job(scratch,
                 {.strategy = strategy,
                  .workers = kWorkers,
                  .servers = kServers,
                  .replicas = replicas,
                  .checkpoint_s = 2},
                 false);
    std::vector<double> pauses;
    for (int run = 0; run < options.runs; ++run) pauses.push_back(job.KillServer());
    const std::string name = std::string(strategy) + (replicas > 1 ? ", replicas" : "") + ", server killed";
    report.Add(WorstRow(name + ": longest pause of a worker", pauses, "s", ValueAtMost(most)));
    report.Add({.name = name + ": lost or counted twice",
                .value = job.Miscounted(),
                .unit = "events",
                .bound = ValueAtMost(0)});
  }
}

}  // namespace

void MeasureKilledWorkers(Report& report, const ElasticOptions& options) {
  for (const char* strategy : {"async", "sync"}) {
    for (const bool standby : {false, true}) {
      const Scratch scratch("elastic");
      KillsJob job(scratch, {.strategy = strategy, .workers = kWorkers, .servers = kServers}, standby);
      std::vector<double> pauses;
      for (int run = 0; run < options.runs; ++run) pauses.push_back(job.KillWorker());
      const std::string name = std::string(strategy) + ", worker killed" + (standby ? ", one stands by" : "");
      report.Add(WorstRow(name + ": longest pause of a worker", pauses, "s",
                          ValueAtMost(standby ? kMaxPauseStandby : kMaxPause)));
      report.Add({.name = name + ": lost or counted twice",
                  .value = job.Miscounted(),
                  .unit = "events",
                  .bound = ValueAtMost(0)});
    }
  }
}

void MeasureKilledServers(Report& report, const ElasticOptions& options) {
  MeasureServers(report, options, 1, kMaxPauseServer);
}

void MeasureKilledServersWithReplicas(Report& report, const ElasticOptions& options) {
  MeasureServers(report, options, 2, kMaxPauseReplicas);
}

}  // namespace leat::bench
