// Resources of the demo's roles: the peak resident size of each, and the CPU time of each without events.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "frame/program.h"
#include "frame/report.h"
#include "metrics/process.h"

namespace {

using namespace leat;
using namespace std::chrono_literals;

constexpr double kMaxMegabytes = 150;
constexpr double kMaxIdlePercent = 2;

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

// Measures idle CPU time: the bots publish hardly any events.
void MeasureIdle(bench::Report& report, double seconds, int runs) {
  const bench::Scratch scratch("memory");
  bench::Running demo({"demo", "--directory", scratch / "job", "--rate", "0.001"}, scratch / "output");
  constexpr size_t kRoles = 6;
  for (int tries = 0; demo.Roles().size() < kRoles; ++tries) {
    if (!demo.alive() || tries > 300) throw std::runtime_error("the demo did not start: " + demo.Output());
    std::this_thread::sleep_for(100ms);
  }
  std::this_thread::sleep_for(3s);  // until all roles have joined
  const auto roles = demo.Roles();
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
      if (!cpu.ok()) throw std::runtime_error(role + " has died: " + demo.Output());
      const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
      most[role] = std::max(most[role], 100 * (*cpu - before[pid]) / wall.count());
    }
    for (const auto& [role, percent] : most) percents[role].push_back(percent);
  }
  for (const auto& [role, values] : percents) {
    report.Add(
        bench::MedianRow(role + " idle", values, "% of a core", "", {}, bench::ValueAtMost(kMaxIdlePercent)));
  }
  demo.Interrupt();
  demo.Wait();
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
