// Resources of the demo's roles: the peak resident size of each, and the CPU time of each without events;
// that also of an all-reduce job.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/metrics/metrics.h"
#include "frame/program.h"
#include "frame/report.h"

namespace {

using namespace leat;
using namespace std::chrono_literals;

constexpr double kMaxMegabytes = 150;
constexpr double kMaxIdlePercent = 1;

// Measures peak memory, at the demo's own rate.
void MeasureMemory(bench::Report& report, double events, int runs) {
  std::map<std::string, std::vector<double>> peaks;  // by role
  for (int run = 0; run < runs; ++run) {
    const bench::Scratch scratch("memory");
    bench::Running demo({"demo", "--directory", scratch / "job", "--events",
                         std::to_string(static_cast<long>(events)), "--json"},
                        scratch / "output");
    if (demo.Wait() != 0) throw std::runtime_error("the demo failed: " + demo.Output());
    const std::string output = demo.Output();
    const auto summary = nlohmann::json::parse(output.substr(output.rfind("\n{") + 1));
    for (const auto& [role, megabytes] : summary.at("peak_rss_mb").items()) {
      peaks[role].push_back(megabytes.get<double>());
    }
  }
  for (const auto& [role, megabytes] : peaks) {
    report.Add(
        bench::MedianRow(role + " resident", megabytes, "MB", "", {}, bench::ValueAtMost(kMaxMegabytes)));
  }
}

// A job like the demo's, whose workers reduce among themselves and whose bots publish hardly any events.
constexpr const char* kAllReduceJob = R"(name: idle
stream: {topic: events, bots: {events: 2000000, rate: 0.001}}
schema:
  format: json
  fields: {amount: {type: number, log: true}, fraud: {type: number, role: label, classes: 2}}
model: {layers: [{dense: {units: 2}}], loss: softmax_cross_entropy}
optimizer: {type: sgd, learning_rate: 0.1}
strategy: allreduce
train: {batch_size: 128}
cluster: {workers: 3}
)";

// Measures the CPU time of each role of a job without events. `command`: starts it, without its directory.
void MeasureIdle(bench::Report& report, const std::string& name, std::vector<std::string> command,
                 size_t number_of_roles, double seconds, int runs) {
  const bench::Scratch scratch("memory");
  command.insert(command.end(), {"--directory", scratch / "job"});
  bench::Running job(command, scratch / "output");
  for (int tries = 0; job.Roles().size() < number_of_roles; ++tries) {
    if (!job.alive() || tries > 300) throw std::runtime_error("the job did not start: " + job.Output());
    std::this_thread::sleep_for(100ms);
  }
  std::this_thread::sleep_for(4s);  // until all roles have joined, and are quiet
  const auto roles = job.Roles();
  std::map<std::string, std::vector<double>> percents;
  for (int run = 0; run < runs; ++run) {
    std::map<pid_t, double> before;
    for (const auto& [role, pid] : roles) {
      if (auto cpu = metrics::CpuSeconds(pid); cpu.ok()) before[pid] = *cpu;
    }
    const auto start = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    std::map<std::string, double> most;
    for (const auto& [role, pid] : roles) {
      auto cpu = metrics::CpuSeconds(pid);
      if (!cpu.ok()) throw std::runtime_error(role + " has died: " + job.Output());
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
      most[role] = std::max(most[role], 100 * (*cpu - before[pid]) / wall.count());
    }
    for (const auto& [role, percent] : most) percents[role].push_back(percent);
  }
  for (const auto& [role, values] : percents) {
    report.Add(bench::MedianRow(name + role + " idle", values, "% of a core", "", {},
                                bench::ValueAtMost(kMaxIdlePercent)));
  }
  job.Interrupt();
  job.Wait();
}

void MeasureIdle(bench::Report& report, double seconds, int runs) {
  MeasureIdle(report, "", {"demo", "--rate", "0.001"}, 6, seconds, runs);
  const bench::Scratch scratch("memory");
  const std::string path = scratch / "job.yaml";
  std::ofstream(path) << kAllReduceJob;
  MeasureIdle(report, "allreduce: ", {"train", path}, 5, seconds, runs);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double events = args.Number("--events", 2'000'000);
  const double seconds = args.Number("--seconds", 10);
  const auto runs = static_cast<int>(args.Number("--runs", 3));
  args.RefuseTheRest();
  bench::Report report("memory", args);
  try {
    MeasureMemory(report, events, runs);
    MeasureIdle(report, seconds, runs);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench memory: %s\n", e.what());
    return 1;
  }
  return report.Finish();
}
