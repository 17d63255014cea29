// Throughput under steady losses, with the local runner: it starts what has died again at once.
#include <signal.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "cluster.h"
#include "frame/report.h"
#include "frame/session.h"
#include "rows.h"
#include "step_watch.h"

namespace leat::bench {
namespace {

constexpr double kGoodputSeconds = 300, kWorkerEvery = 10, kServerEvery = 60;
constexpr double kLeastAsync = 0.95, kLeastSync = 0.85;
constexpr int kGoodputWorkers = 4, kGoodputServers = 3;

// `leat train`.
class TrainedJob {
 public:
  TrainedJob(const Scratch& scratch, const std::string& name, const CountingJob& job)
      : directory_(scratch / name),
        address_(FreeAddress()),
        program_(
            {"train", job.Write(scratch, name), "--directory", directory_, "--listen", address_, "--json"},
            scratch / (name + ".log")),
        client_(control::ControlClient::Make(address_, kToken)) {}

  Json Status() {
    CheckInterrupted();
    if (!program_.alive()) Fail("the job has ended: " + program_.Output());
    auto status = StatusOf(*client_, std::chrono::seconds(10));
    if (!status) Fail("the coordinator does not answer: " + program_.Output());
    return *std::move(status);
  }
  void WaitUntilAllTrain() {
    const double end = StepWatch::Now() + 120;
    while (true) {
      CheckInterrupted();
      if (!program_.alive()) Fail("the job has ended: " + program_.Output());
      const auto status = StatusOf(*client_, std::chrono::seconds(1));
      if (status && AllTrain(*status)) return;
      if (StepWatch::Now() > end) Fail("not all workers train: " + program_.Output());
      StepWatch::Sleep(0.1);
    }
  }
  // Stops the job after a checkpoint, and returns how many events a parameter has missed or counted twice.
  double Miscounted() {
    program_.Interrupt();
    if (program_.WaitFor(120)) Fail("the job does not end: " + program_.Output());
    if (program_.Wait() != 0) Fail("the job has failed: " + program_.Output());
    const std::string said = program_.Output();
    const Json summary = Json::parse(said.substr(said.rfind("\n{") + 1), nullptr, false);
    if (summary.is_discarded()) Fail("there is no summary: " + said);
    return WorstCount(directory_, summary.at("events").get<double>());
  }

 private:
  static bool AllTrain(const Json& status) {
    size_t training = 0;
    for (const auto& [pid, worker] : WorkersIn(status)) training += worker.value("steps", 0) > 0 ? 1 : 0;
    return training == kGoodputWorkers && WorkersIn(status, true).size() == 1 &&
           status.at("checkpoint").is_string();
  }

  const std::string directory_, address_;
  Running program_;
  std::unique_ptr<control::ControlClient> client_;
};

// kill -9 of one of these processes.
void KillOne(const std::map<pid_t, Json>& members, Rng& rng) {
  if (members.empty()) return;
  kill(std::next(members.begin(), static_cast<std::ptrdiff_t>(rng.Below(members.size())))->first, SIGKILL);
}

void MeasureGoodput(Report& report, const ElasticOptions& options, int replicas) {
  const double seconds = options.seconds > 0 ? options.seconds : kGoodputSeconds;
  for (const char* strategy : {"async", "sync"}) {
    const Scratch scratch("elastic");
    const CountingJob job{.strategy = strategy,
                          .workers = kGoodputWorkers,
                          .standby = 1,
                          .servers = kGoodputServers,
                          .replicas = replicas};
    TrainedJob undisturbed(scratch, "undisturbed", job), disturbed(scratch, "disturbed", job);
    undisturbed.WaitUntilAllTrain();
    disturbed.WaitUntilAllTrain();
    Rng rng(1);
    const double before = disturbed.Status().at("events"), others = undisturbed.Status().at("events");
    const double start = StepWatch::Now();
    double next_worker = start + kWorkerEvery, next_server = start + kServerEvery;
    while (StepWatch::Now() < start + seconds) {
      StepWatch::Sleep(std::min({next_worker, next_server, start + seconds}) - StepWatch::Now());
      if (StepWatch::Now() >= next_worker) {
        KillOne(WorkersIn(disturbed.Status()), rng);
        next_worker += kWorkerEvery;
      }
      if (StepWatch::Now() >= next_server) {
        KillOne(ServersIn(disturbed.Status()), rng);
        next_server += kServerEvery;
      }
    }
    const double took = StepWatch::Now() - start;
    const double good = (disturbed.Status().at("events").get<double>() - before) / took;
    const double all = (undisturbed.Status().at("events").get<double>() - others) / took;
    const std::string name = std::string(strategy) + (replicas > 1 ? ", replicas" : "") +
                             ", worker killed every 10 s, server every 60 s";
    Bound bound;
    if (replicas > 1) bound = RatioAtLeast(strategy == std::string("sync") ? kLeastSync : kLeastAsync);
    report.Add(MedianRow(name, {good}, "events/s", "undisturbed", {all}, bound));
    report.Add({.name = name + ": lost or counted twice",
                .value = disturbed.Miscounted(),
                .unit = "events",
                .bound = ValueAtMost(0)});
    if (undisturbed.Miscounted() != 0) Fail("the undisturbed job has miscounted");
  }
}

}  // namespace

void MeasureGoodput(Report& report, const ElasticOptions& options) {
  MeasureGoodput(report, options, 2);
}

void MeasureGoodputWithoutReplicas(Report& report, const ElasticOptions& options) {
  MeasureGoodput(report, options, 1);
}

}  // namespace leat::bench
