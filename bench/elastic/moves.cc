// Slices that move between servers while workers push to them.
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

constexpr double kMinPace = 0.7, kMaxBytes = 1.2;
constexpr int kMoveWorkers = 2, kMoveServers = 2;
constexpr double kUsualBeforeMove = 6;         // seconds of usual training before a move
constexpr int kUnits = 1 << 20, kInputs = 15;  // 64 MB of parameters

double Moves(const Json& status, const char* what) {
  return status.value("moves", Json::object()).value(what, 0.0);
}

// Training before and during a change of the servers, and the bytes sent by it.
struct Move {
  double pace = 0, usual = 0;  // batches per second
  double bytes = 0, least = 0;
};

// `begin` starts the change; it is over when `over` holds and no move is planned any more.
template <class Begin, class Over>
Move Watch(Cluster& cluster, const StepWatch& watch, const Begin& begin, const Over& over) {
  StepWatch::Sleep(kUsualBeforeMove);
  const Json before = cluster.Status();
  const double start = StepWatch::Now();
  begin(before);
  cluster.WaitFor("no slice moves", [&](const Json& status) {
    return Moves(status, "planned") > 0 || Moves(status, "slices") > Moves(before, "slices");
  });
  const double first = StepWatch::Now();
  Json after;
  cluster.WaitFor(
      "the slices do not all move",
      [&](const Json& status) {
        if (Moves(status, "planned") > 0 || Moves(status, "slices") <= Moves(before, "slices")) return false;
        after = status;
        return over(status);
      },
      300);
  const double last = StepWatch::Now();
  StepWatch::Sleep(1);  // the batches that end it are reported
  return {.pace = watch.all().Rate(first, last),
          .usual = watch.all().Rate(start - kUsualBeforeMove, start),
          .bytes = Moves(cluster.Status(), "bytes_sent") - Moves(before, "bytes_sent")};
}

// The bytes that the server with this process id holds.
double Held(const Json& status, pid_t pid) {
  const auto servers = ServersIn(status);
  const auto server = servers.find(pid);
  return server == servers.end() ? 0 : server->second.value("bytes_held", 0.0);
}

double HeldByAll(const Json& status) {
  double all = 0;
  for (const auto& [pid, server] : ServersIn(status)) all += server.value("bytes_held", 0.0);
  return all;
}

void AddRows(Report& report, const std::string& name, const std::vector<Move>& moves) {
  std::vector<double> paces, usual, bytes, least;
  for (const Move& move : moves) {
    paces.push_back(move.pace);
    usual.push_back(move.usual);
    bytes.push_back(move.bytes / 1e6);
    least.push_back(move.least / 1e6);
  }
  report.Add(
      MedianRow(name + ": training meanwhile", paces, "batches/s", "before", usual, RatioAtLeast(kMinPace)));
  report.Add(MedianRow(name + ": sent", bytes, "MB", "the least", least, RatioAtMost(kMaxBytes)));
}

}  // namespace

void MeasureMoves(Report& report, const ElasticOptions& options) {
  for (const char* strategy : {"async", "sync"}) {
    const Scratch scratch("elastic");
    // A batch of one event, since each output of the model is as large as the parameters.
    Cluster cluster(scratch, "moves",
                    {.strategy = strategy,
                     .workers = kMoveWorkers,
                     .servers = kMoveServers,
                     .units = kUnits,
                     .inputs = kInputs,
                     .batch_size = 1,
                     .step_ms = 0,
                     .heartbeat_s = 0.05,
                     .checkpoint_s = 1e6});
    for (int i = 0; i < kMoveServers; ++i) cluster.Start("ps");
    for (int i = 0; i < kMoveWorkers; ++i) cluster.Start("worker");
    StepWatch watch(cluster.addresses());
    cluster.WaitFor("not all workers train", [](const Json& status) {
      const auto workers = WorkersIn(status);
      return workers.size() == kMoveWorkers &&
             std::ranges::all_of(workers, [](const auto& w) { return w.second.value("steps", 0) > 0; });
    });
    std::vector<Move> joins, leaves;
    for (int run = 0; run < options.runs; ++run) {
      pid_t server = 0;
      Move join = Watch(
          cluster, watch,
          [&](const Json&) {
            cluster.Want({}, kMoveServers + 1);
            server = cluster.Start("ps").pid();
          },
          [&](const Json& status) { return Held(status, server) > 0; });
      const Json joined = cluster.Status();
      // Its share.
      join.least = HeldByAll(joined) / (kMoveServers + 1);
      if (Held(joined, server) < 0.75 * join.least) Fail("the new server has not got its share");
      joins.push_back(join);
      const double held = Held(joined, server);
      Move leave = Watch(
          cluster, watch, [&](const Json&) { cluster.Terminate(server); },
          [&](const Json& status) { return !ServersIn(status).contains(server); });
      leave.least = held;
      leaves.push_back(leave);
    }
    AddRows(report, std::string(strategy) + ", server joins", joins);
    AddRows(report, std::string(strategy) + ", server leaves", leaves);
    report.Add({.name = std::string(strategy) + ", servers join and leave: lost or counted twice",
                .value = cluster.Miscounted(cluster.Stop()),
                .unit = "events",
                .bound = ValueAtMost(0)});
  }
}

}  // namespace leat::bench
