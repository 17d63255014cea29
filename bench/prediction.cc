// Predictions of the cluster simulator against measurements: the events per second of a job whose batches
// take 50 ms, on emulated hosts with slow links. The simulator is calibrated in the same run and told the
// links' bursts. Needs root, or user namespaces, and iproute2.

#include <signal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iomanip>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "frame/program.h"
#include "frame/report.h"
#include "lab/hosts/hosts.h"
#include "lab/study/grid/run_study.h"
#include "lab/study/profile.h"
#include "lab/study/simulation.h"
#include "run/launcher/processes.h"
#include "run/launcher/security.h"
#include "run/launcher/signals.h"

namespace {

using namespace leat;
using std::chrono::seconds;

constexpr uint32_t kServers = 2;
constexpr int kInputs = 90, kRows = 4096, kBatch = 16;
constexpr uint64_t kBurst = 256 << 10;
// A point counts for the narrow bound if no more of the processors were used: emulated hosts share them.
constexpr double kMostProcessors = 0.6;
constexpr double kNarrow = 0.1, kWide = 0.2, kShare = 0.9;

struct Link {
  const char* name;
  double bits_per_s;
};
constexpr std::array<Link, 3> kLinks{{{"unlimited", 0}, {"1gbit", 1e9}, {"100mbit", 1e8}}};
constexpr std::array<const char*, 5> kStrategies{"async", "sync", "ssp", "allreduce", "averaging"};
constexpr std::array<uint32_t, 5> kWorkers{1, 2, 4, 8, 16};

struct Point {
  std::string strategy;
  Link link;
  uint32_t workers = 1;
  std::string Name() const {
    return strategy + ", " + link.name + ", " + std::to_string(workers) +
           (workers == 1 ? " worker" : " workers");
  }
};

// A network of 93,002 parameters, 372 KB, whose batches hardly take longer than `debug: step_ms`.
std::string WriteJob(const bench::Scratch& scratch, const std::string& strategy) {
  const std::string rows = scratch / "rows.csv";
  if (!std::ifstream(rows)) {
    std::ofstream out(rows);
    for (int row = 0; row < kRows; ++row) {
      for (int i = 0; i < kInputs; ++i) out << "0." << (row * 7 + i * 13) % 10 << ",";
      out << row % 2 << "\n";
    }
  }
  const std::string path = scratch / (strategy + ".yaml");
  std::ofstream job(path);
  job << "name: prediction\nseed: 1\nstream:\n  epochs: 1000000\n  files: {format: csv, paths: [\"" << rows
      << "\"], partitions: 16, header: false}\nschema:\n  format: csv\n  delimiter: \",\"\n  fields: {";
  for (int i = 0; i < kInputs; ++i) job << "x" << i << ": {type: number}, ";
  job << "y: {type: number, role: label}}\nmodel:\n  layers:\n    - dense: {units: 1000, activation: relu}\n"
         "    - dense: {units: 2}\n  loss: softmax_cross_entropy\noptimizer: {type: sgd, learning_rate: "
         "0.0001}\n"
      << "strategy: " << strategy << "\ntrain: {batch_size: " << kBatch
      << ", split_batches: 16}\ncheckpoint: {interval_s: 3600}\ndebug: {step_ms: 50}\n";
  return path;
}

void WaitForText(const std::string& file, const std::string& text, Duration within) {
  const MonotonicClock clock;
  const Time until = clock.Now() + within;
  for (std::string all; all.find(text) == std::string::npos;) {
    if (clock.Now() > until) throw std::runtime_error(file + " has no '" + text + "' in time: " + all);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::ostringstream read;
    read << std::ifstream(file).rdbuf();
    all = read.str();
  }
}

// Starts a program on a host, waits for its end, and returns an error if it fails.
Status RunOn(const hosts::Hosts& hosts, uint32_t host, launcher::Processes& processes,
             launcher::ProcessSpec spec, Duration within) {
  spec.namespaces = hosts.Namespaces(host);
  const MonotonicClock clock;
  const Time until = clock.Now() + within;
  LEAT_ASSIGN_OR_RETURN(const pid_t pid, processes.Start(spec));
  while (clock.Now() < until) {
    processes.Await(until - clock.Now());
    for (const launcher::ProcessEnd& end : processes.Reap()) {
      if (end.pid != pid) continue;
      return end.exit_code == 0 ? Status() : Status(Code::kInternal, end.name + ": " + end.last_error);
    }
  }
  return Status(Code::kDeadlineExceeded, spec.name + " takes too long");
}

// Measures the link on two hosts of their own, one of which answers.
study::Profile Calibrate(const bench::Scratch& scratch, const std::string& job, const Link& link) {
  const auto require = [](const Status& status) {
    if (!status.ok()) throw std::runtime_error("calibration: " + status.message());
  };
  hosts::Hosts pair;
  require(pair.Make(2));
  for (uint32_t host = 0; link.bits_per_s > 0 && host < 2; ++host)
    require(pair.Shape(host, link.bits_per_s, kBurst));
  launcher::Processes processes;
  const std::map<std::string, std::string> environment{{"LEAT_TOKEN", launcher::RandomToken()},
                                                       {"LEAT_TRUSTED_NETWORK", "1"},
                                                       {"LEAT_SECURITY", ""},
                                                       {"OMP_NUM_THREADS", "1"}};
  const std::string answers = pair.Address(1) + ":7002", out = scratch / "profile.json";
  const auto listening = processes.Start({.name = "listen",
                                          .arguments = {"calibrate", "--listen", answers},
                                          .environment = environment,
                                          .log = scratch / "listen.log",
                                          .namespaces = pair.Namespaces(1),
                                          .program = bench::Program()});
  require(listening.status());
  WaitForText(scratch / "listen.log", "serves on ", seconds(60));
  require(RunOn(pair, 0, processes,
                {.name = "calibrate",
                 .arguments = {"calibrate", job, "--to", answers, "--out", out, "--seconds", "2"},
                 .environment = environment,
                 .log = scratch / "calibrate.log",
                 .program = bench::Program()},
                seconds(120)));
  processes.Signal(SIGKILL);
  while (!processes.empty()) {
    processes.Await(seconds(1));
    processes.Reap();
  }
  return study::ReadProfile(out);
}

double Predict(const std::string& job_file, const Point& point, const study::Profile& profile) {
  job::JobOverrides overrides{.workers = point.workers};
  overrides.servers = point.strategy == "allreduce" ? 0 : kServers;
  const job::Job job = job::Job::Load({.file = job_file}, overrides);
  const Result<study::Costs> costs = study::CostsOf(profile, job, "the profile");
  if (!costs.ok()) throw std::runtime_error(costs.status().message());
  study::SimulationSettings settings{.steps = 1000};
  settings.link = {.bytes_per_s = profile.link->bytes_per_s,
                   .latency = FromSeconds(profile.link->latency_s),
                   .burst = point.link.bits_per_s > 0 ? kBurst : 0};
  sim::ClusterOptions options = study::OptionsFor(job, *costs, settings);
  study::ModelStream(job, settings, &options);
  const Result<double> speed = study::SimulatedSpeed(options, seconds(2), seconds(20));
  if (!speed.ok()) throw std::runtime_error(point.Name() + ": " + speed.status().message());
  return *speed;
}

struct Errors {
  std::vector<double> all, counted;
};

void Compare(bench::Report& report, const bench::Scratch& scratch, const std::vector<Point>& points,
             double measure_s) {
  std::map<std::string, study::Profile> profiles;  // by link
  for (const Point& point : points) {
    if (profiles.contains(point.link.name)) continue;
    const study::Profile& profile = profiles[point.link.name] =
        Calibrate(scratch, WriteJob(scratch, "async"), point.link);
    std::ostringstream note;
    note << std::fixed << std::setprecision(1) << point.link.name << ": " << profile.link->bytes_per_s / 1e6
         << " MB/s and " << profile.link->latency_s * 1e6 << " us measured; a batch takes "
         << profile.batches[0].compute_s * 1e3 << " ms";
    report.Note(note.str());
  }
  Errors errors;
  int number = 0;
  for (const Point& point : points) {
    const std::string job = WriteJob(scratch, point.strategy);
    const double predicted = Predict(job, point, profiles[point.link.name]);
    const Result<study::RealResult> real =
        study::RunReal({.job_file = job,
                        .workers = point.workers,
                        .servers = point.strategy == "allreduce" ? 0 : kServers,
                        .folder = scratch / ("point-" + std::to_string(++number)),
                        .on_hosts = true,
                        .bits_per_s = point.link.bits_per_s,
                        .burst = kBurst,
                        .program = bench::Program(),
                        .measure = FromSeconds(measure_s)});
    if (!real.ok()) throw std::runtime_error(point.Name() + ": " + real.status().message());
    const double error = std::abs(predicted / real->events_per_s - 1);
    errors.all.push_back(error);
    if (real->processors <= kMostProcessors) errors.counted.push_back(error);
    std::ostringstream name;
    name << point.Name() << " (" << std::lround(100 * real->processors) << " % of the processors)";
    report.Add({.name = name.str(),
                .value = predicted,
                .unit = "events/s",
                .reference = "measured",
                .reference_value = real->events_per_s,
                .runs = 1});
  }
  const auto percent = [](double x) { return 100 * x; };
  report.Add(bench::WorstRow("largest error of all", {percent(*std::ranges::max_element(errors.all))}, "%",
                             bench::ValueAtMost(percent(kWide))));
  if (errors.counted.empty()) return report.Skip("every point used too much of the processors");
  std::ranges::sort(errors.counted);
  const auto at = static_cast<size_t>(std::ceil(kShare * static_cast<double>(errors.counted.size()))) - 1;
  report.Add(bench::WorstRow("error of nine of ten with at most 60 % of the processors",
                             {percent(errors.counted[at])}, "%", bench::ValueAtMost(percent(kNarrow))));
}

// `choice`: words of which a point has one, separated by commas; empty: all.
bool Chosen(const std::string& choice, const std::string& word) {
  std::istringstream words(choice);
  bool any = false;
  for (std::string one; std::getline(words, one, ',');) {
    any = true;
    if (one == word) return true;
  }
  return !any;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const std::string strategies = args.String("--strategies", "");
  const std::string links = args.String("--links", "");
  const std::string workers = args.String("--workers", "");
  const bool quick = args.Flag("--quick");  // six points
  const double measure_s = args.Number("--seconds", 8);
  args.RefuseTheRest();
  std::vector<Point> points;
  for (const Link& link : kLinks) {
    for (const char* strategy : kStrategies) {
      for (const uint32_t count : kWorkers) {
        if (std::string_view(strategy) == "allreduce" && count < 2) continue;
        if (Chosen(strategies, strategy) && Chosen(links, link.name) &&
            Chosen(workers, std::to_string(count)))
          points.push_back({strategy, link, count});
      }
    }
  }
  if (quick) {
    points = {{"async", kLinks[0], 1}, {"sync", kLinks[1], 2},      {"allreduce", kLinks[1], 4},
              {"ssp", kLinks[2], 4},   {"averaging", kLinks[2], 2}, {"allreduce", kLinks[2], 2}};
  }
  if (points.empty()) {
    std::fprintf(stderr, "bench prediction: no such points\n");
    return 2;
  }
  launcher::BlockSignals();
  if (const Status entered = hosts::EnterNamespaces(); !entered.ok()) {
    bench::Report report("prediction", args);
    report.Skip("needs emulated hosts: " + entered.message());
    return report.Finish();
  }
  bench::Report report("prediction", args);
  try {
    const bench::Scratch scratch("prediction");
    Compare(report, scratch, points, measure_s);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench prediction: %s\n", e.what());
    return 1;
  }
  return report.Finish();
}
