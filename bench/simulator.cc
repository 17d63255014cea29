// Speed of the cluster simulator on one core: messages per second of modelled steps, and a job on a large
// cluster.

#include <time.h>

#include <chrono>
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
#include "sim/cluster/cluster.h"
#include "sim/events/huge_pages.h"

namespace {

using namespace leat;

// A 784-512-512-10 network, with twelve slices per server.
protocol::SliceTable Mlp(uint32_t servers) {
  std::vector<optim::VariableSpec> variables = {{"w1", Shape{784, 512}, {}}, {"b1", Shape{512}, {}},
                                                {"w2", Shape{512, 512}, {}}, {"b2", Shape{512}, {}},
                                                {"w3", Shape{512, 10}, {}},  {"b3", Shape{10}, {}}};
  return protocol::MakeSlices(std::move(variables), 1, servers);
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
  uint64_t messages = 0;
};

Measured Simulate(uint32_t workers, uint32_t servers, uint32_t steps, protocol::StrategyKind strategy) {
  sim::ClusterOptions options;
  options.workers = workers;
  options.servers = servers;
  options.table = Mlp(servers);
  options.strategy.kind = strategy;
  options.strategy.lanes = strategy == protocol::StrategyKind::kSync ? workers : 1;
  options.cuts.batch_size = 100;
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
  return {ProcessorSeconds() - start, wall.count(), result.messages};
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const auto steps = static_cast<uint32_t>(args.Number("--steps", 1000));
  const auto runs = static_cast<int>(args.Number("--runs", 3));
  const std::string only = args.String("--case", "");  // async, sync or large
  args.RefuseTheRest();

  sim::HeapOfHugePages(size_t{1} << 30);
  bench::Report report("simulator", args);
  const auto wanted = [&](std::string_view name) { return only.empty() || only == name; };
  std::map<std::string, std::vector<double>> rates;  // by strategy
  std::vector<double> large_seconds;
  Measured large;
  for (int run = 0; run < runs; ++run) {
    for (const auto strategy : {protocol::StrategyKind::kAsync, protocol::StrategyKind::kSync}) {
      const std::string name(protocol::Name(strategy));
      if (!wanted(name)) continue;
      const Measured small = Simulate(100, 20, steps, strategy);
      rates[name].push_back(static_cast<double>(small.messages) / small.processor_s);
    }
    if (!wanted("large")) continue;
    large = Simulate(1000, 20, steps, protocol::StrategyKind::kAsync);
    large_seconds.push_back(large.wall_s);
  }
  for (const auto& [name, values] : rates) {
    report.Add(bench::MedianRow("messages " + name, values, "1/s", "", {}, bench::ValueAtLeast(700'000)));
  }
  if (large_seconds.empty()) return report.Finish();
  report.Add(bench::MedianRow("1,000 workers, 20 servers, " + std::to_string(steps) + " steps", large_seconds,
                              "s", "", {}, bench::ValueAtMost(60)));
  std::ostringstream note;
  note << std::fixed << std::setprecision(1) << "one core, " << large.processor_s << " s of it, and "
       << static_cast<double>(large.messages) / 1e6
       << " million messages; a step of a worker is a push to and a reply from each of 20 servers";
  report.Note(note.str());
  return report.Finish();
}
