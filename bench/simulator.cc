// Speed of the cluster simulator on one core: messages per second of modelled steps with every strategy, and
// jobs on large clusters.

#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <iomanip>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "frame/measure.h"
#include "frame/report.h"
#include "frame/session.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/sim/events/memory.h"

namespace {

using namespace leat;
using protocol::StrategyKind;

constexpr double kLeastRate = 700'000;  // messages per second

// A 784-512-512-10 network, with twelve slices per server.
protocol::SliceTable Mlp(uint32_t servers) {
  std::vector<optim::VariableSpec> variables = {{"w1", Shape{784, 512}, {}}, {"b1", Shape{512}, {}},
                                                {"w2", Shape{512, 512}, {}}, {"b2", Shape{512}, {}},
                                                {"w3", Shape{512, 10}, {}},  {"b3", Shape{10}, {}}};
  return protocol::MakeSlices(std::move(variables), 1, servers);
}

// With the defaults of jobs.
protocol::StrategyConfig Strategy(StrategyKind kind, uint32_t workers) {
  protocol::StrategyConfig strategy;
  strategy.kind = kind;
  if (kind == StrategyKind::kSsp) strategy.staleness = 3;
  if (kind == StrategyKind::kDownpour) strategy.n_push = strategy.n_fetch = 4;
  if (kind == StrategyKind::kAveraging) strategy.period = 8;
  if (strategy.stepped()) strategy.lanes = workers;
  return strategy;
}

// CPU time of this thread, which does all the work. Other load affects it less than wall time.
double ProcessorSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Measured {
  double processor_s = 0;
  double wall_s = 0;
  double memory_gib = 0;  // at most
  uint64_t messages = 0;
};

Measured Simulate(uint32_t workers, uint32_t servers, uint32_t steps, StrategyKind kind) {
  sim::ClusterOptions options;
  options.workers = workers;
  options.strategy = Strategy(kind, workers);
  options.servers = options.strategy.on_servers() ? servers : 0;
  options.table = Mlp(servers);
  options.cuts.batch_size = 100;
  // Every worker of a short job has work.
  options.cuts.split_batches = std::min(options.cuts.split_batches, steps);
  options.cuts.run = options.strategy.run();
  options.stream.partitions.assign(16, {0, uint64_t{workers} * steps * options.cuts.batch_size / 16});
  options.worker_link = {1.25e8, std::chrono::microseconds(100)};
  options.server_link = {1.25e9, std::chrono::microseconds(100)};
  options.compute = {sim::Distribution::Kind::kLognormal, 0.005, 0.3};
  options.heartbeat_interval = std::chrono::seconds(1);
  options.heartbeat_timeout = std::chrono::seconds(30);
  options.reply_timeout = std::chrono::seconds(100);
  options.parked_timeout = std::chrono::seconds(50);
  sim::ModelledWorkload workload;
  const double start = ProcessorSeconds();
  const auto began = std::chrono::steady_clock::now();
  const sim::ClusterResult result = sim::Cluster(options, workload).Run();
  if (!result.error.empty()) throw std::runtime_error(result.error);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - began;
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return {ProcessorSeconds() - start, wall.count(), static_cast<double>(used.ru_maxrss) / (1 << 20),
          result.messages};
}

// In a process of its own: what a run has left of the heap neither helps the next one nor counts in its
// memory.
Measured SimulateApart(uint32_t workers, uint32_t servers, uint32_t steps, StrategyKind kind) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("cannot create a pipe");
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) {
    try {
      const Measured measured = Simulate(workers, servers, steps, kind);
      _exit(write(ends[1], &measured, sizeof measured) == sizeof measured ? 0 : 1);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "bench simulator: %s\n", e.what());
      _exit(1);
    }
  }
  close(ends[1]);
  Measured measured;
  const bool complete = read(ends[0], &measured, sizeof measured) == sizeof measured;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (!complete) throw std::runtime_error("a simulation has failed");
  return measured;
}

struct Large {
  const char* name;  // --case
  const char* row;
  uint32_t workers, servers, steps;
  double most_seconds, most_gib;
};
constexpr std::array<Large, 2> kLarge{{
    {"large", "1,000 workers, 20 servers", 1'000, 20, 1'000, 45, 4},
    {"huge", "10,000 workers, 100 servers", 10'000, 100, 25, 60, 4},
}};

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const auto steps = static_cast<uint32_t>(args.Number("--steps", 1000));  // pushes of a worker
  const auto runs = static_cast<int>(args.Number("--runs", 3));
  const std::string only = args.String("--case", "");  // a strategy, large or huge
  args.RefuseTheRest();

  sim::HeapOfHugePages(size_t{4} << 30);
  bench::Report report("simulator", args);
  const auto wanted = [&](std::string_view name) { return only.empty() || only == name; };
  const std::array kinds{StrategyKind::kAsync,    StrategyKind::kSync,      StrategyKind::kSsp,
                         StrategyKind::kDownpour, StrategyKind::kAveraging, StrategyKind::kAllReduce};
  std::map<StrategyKind, std::vector<double>> rates;
  std::map<std::string, std::vector<double>> seconds, memory;
  try {
    for (int run = 0; run < runs; ++run) {
      const auto show = [&](std::string_view what) {
        bench::PrintProgress("run %d of %d: %s", run + 1, runs, std::string(what).c_str());
      };
      for (const StrategyKind kind : kinds) {
        if (!wanted(protocol::Name(kind))) continue;
        show(protocol::Name(kind));
        // A step of a ring has ten times the messages of one with servers.
        const bool ring = kind == StrategyKind::kAllReduce;
        const uint32_t batches = ring ? steps / 10 : steps * Strategy(kind, 1).run();
        const Measured small = SimulateApart(100, 20, batches, kind);
        rates[kind].push_back(static_cast<double>(small.messages) / small.processor_s);
      }
      for (const Large& large : kLarge) {
        if (!wanted(large.name)) continue;
        show(large.row);
        const Measured measured =
            SimulateApart(large.workers, large.servers, large.steps, StrategyKind::kAsync);
        seconds[large.name].push_back(measured.wall_s);
        memory[large.name].push_back(measured.memory_gib);
        std::ostringstream note;
        note << std::fixed << std::setprecision(1) << large.row << ": one core, " << measured.processor_s
             << " s of it, and " << static_cast<double>(measured.messages) / 1e6 << " million messages";
        if (run + 1 == runs) report.Note(note.str());
      }
    }
    bench::PrintProgress("");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench simulator: %s\n", e.what());
    return 1;
  }
  for (const auto& [kind, values] : rates) {
    report.Add(bench::WorstRow("messages " + std::string(protocol::Name(kind)), values, "1/s",
                               bench::ValueAtLeast(kLeastRate)));
  }
  for (const Large& large : kLarge) {
    if (!wanted(large.name)) continue;
    const std::string row = std::string(large.row) + ", " + std::to_string(large.steps) + " steps";
    report.Add(bench::WorstRow(row, seconds[large.name], "s", bench::ValueAtMost(large.most_seconds)));
    report.Add(bench::WorstRow(std::string(large.row) + ", memory", memory[large.name], "GiB",
                               bench::ValueAtMost(large.most_gib)));
  }
  return report.Finish();
}
