// How long training pauses for a checkpoint: the longest step of a worker while a checkpoint of 256 MB is
// made, as the worker reports it, against the median of its steps, with the disk as it is and with one of
// 100 MB/s.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/shaped_link.h"
#include "net/rpc/client.h"

namespace {

using namespace leat;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* kToken = "of this run alone";
constexpr double kMaxPause = 200;  // ms
constexpr double kSlowDisk = 100e6;
constexpr auto kNoStep = 2min;

// `bytes` of parameters and hardly any computation. Heartbeats are frequent, because they carry the steps.
std::string JobText(const bench::Scratch& scratch, const std::string& strategy, double bytes) {
  constexpr int kUnits = 1 << 20;
  const bool servers = strategy != "allreduce";
  const std::string layer = "bias: {units: " + std::to_string(kUnits) + "}";
  std::string layers = "    - " + layer + "\n";
  for (double made = 4.0 * kUnits; made < bytes; made += 4.0 * kUnits)
    layers += "    - residual: {layers: [" + layer + "]}\n";
  return "name: pause\nseed: 1\nstream:\n  epochs: 1000\n  files: {format: csv, paths: [\"" +
         scratch / "rows.csv" +
         "\"], partitions: 4, header: false}\n"
         "schema:\n  format: csv\n  delimiter: \",\"\n"
         "  fields: {x: {type: number}, y: {type: number, role: label}}\n"
         "model:\n  layers:\n" +
         layers +
         "  loss: {type: negative_sum, reduction: sum}\n"
         "optimizer: {type: sgd, learning_rate: 0.0001}\nstrategy: " +
         strategy +
         "\ntrain: {batch_size: 1, split_batches: 64}\ncheckpoint: {interval_s: 1000000}\n"
         "cluster: {heartbeat_interval_s: 0.01, " +
         (servers ? "workers: 1, ps: 1, max_ps: 1}\n" : "workers: 2}\n");
}

class PauseJob {
 public:
  // `under`: the launcher of the process that saves.
  PauseJob(const bench::Scratch& scratch, const std::string& strategy, const std::vector<std::string>& under)
      : coordinator_({"coordinator", scratch / "job.yaml", "--directory", scratch / "job"},
                     scratch / "coordinator.log") {
    const bool servers = strategy != "allreduce";
    std::string address;
    bench::WaitFor("the coordinator did not start", coordinator_,
                   [&] { return !(address = bench::AddressIn(coordinator_, "serves on ")).empty(); });
    client_ = control::ControlClient::Make(address, kToken);
    const auto start = [&](const char* role, const std::string& log,
                           const std::vector<std::string>& launcher) {
      roles_.push_back(std::make_unique<bench::Running>(
          std::vector<std::string>{role, "--coordinator", address}, scratch / log, launcher));
    };
    const std::vector<std::string> alone;
    if (servers) start("ps", "ps.log", under);
    for (int i = 0; i < (servers ? 1 : 2); ++i)
      start("worker", "worker-" + std::to_string(i) + ".log", servers ? alone : under);
    bench::WaitFor("nothing is trained", *roles_.back(), [&] { return (steps_ = Poll().first) >= 5; });
    last_step_ = Clock::now();
  }

  struct Steps {
    std::vector<double> lengths;  // ms, as seen from outside
    double longest = 0;           // ms, of any worker
  };
  // The steps from the last one seen to the first one after `over`: a pause at either edge counts too.
  template <class Over>
  Steps Watch(const Over& over) {
    Steps seen;
    for (bool ended = false; !ended; std::this_thread::sleep_for(1ms)) {
      const bool is_over = over();
      const auto [steps, longest] = Poll();
      const auto at = Clock::now();
      seen.longest = std::max(seen.longest, longest);
      if (steps != steps_) {
        // Several steps between two heartbeats share the time equally.
        seen.lengths.push_back(std::chrono::duration<double, std::milli>(at - last_step_).count() /
                               (steps - steps_));
        last_step_ = at;
        steps_ = steps;
        ended = is_over;
      } else if (at - last_step_ > kNoStep) {
        throw std::runtime_error("no step was made for 2 minutes");
      }
    }
    return seen;
  }

  Steps WatchCheckpoint() {
    Result<protocol::ControlReply> reply = Status(Code::kUnavailable, "no reply");
    std::atomic<bool> done{false};
    std::thread admin([&] {
      reply = client_->Call(protocol::AdminRequest{protocol::AdminRequest::Kind::kCheckpoint}, 10min);
      done = true;
    });
    Steps steps = Watch([&] { return done.load(); });
    admin.join();
    const auto* answer = reply.ok() ? std::get_if<protocol::AdminReply>(&*reply) : nullptr;
    if (answer == nullptr || !answer->status.ok()) throw std::runtime_error("no checkpoint");
    return steps;
  }

 private:
  // The steps that the first worker has made, and the longest one of any worker lately.
  std::pair<double, double> Poll() {
    const auto reply = client_->Call(protocol::StatusRequest{}, 10s);
    if (!reply.ok()) throw std::runtime_error(reply.status().ToString());
    const auto status = nlohmann::json::parse(std::get<protocol::StatusReply>(*reply).json);
    double steps = -1, longest = 0;
    for (const auto& member : status.value("members", nlohmann::json::array())) {
      if (member.value("role", "") != "worker") continue;
      if (steps < 0) steps = member.value("steps", 0.0);
      longest = std::max(longest, member.value("longest_step_ms", 0.0));
    }
    return {std::max(steps, 0.0), longest};
  }

  double steps_ = 0;
  Clock::time_point last_step_;
  bench::Running coordinator_;
  std::vector<std::unique_ptr<bench::Running>> roles_;
  std::unique_ptr<control::ControlClient> client_;
};

void Measure(bench::Report& report, const std::string& strategy, double bytes, double seconds, int runs,
             bool slow) {
  const bench::Scratch scratch("pause");
  std::ofstream rows(scratch / "rows.csv");
  for (int i = 0; i < 100'000; ++i) rows << i % 7 << "," << i % 2 << "\n";
  rows.close();
  std::ofstream(scratch / "job.yaml") << JobText(scratch, strategy, bytes);
  std::vector<std::string> under;
  if (slow) {
    under = {"/usr/bin/env", "LD_PRELOAD=" LEAT_SLOW_DISK_LIBRARY,
             "LEAT_SLOW_DISK=" + std::to_string(static_cast<long>(kSlowDisk))};
  }
  PauseJob job(scratch, strategy, under);
  std::vector<double> longest, usual, pauses;
  for (int run = 0; run < runs; ++run) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    const double median = bench::Median(job.Watch([&] { return Clock::now() >= end; }).lengths);
    const double most = job.WatchCheckpoint().longest;
    usual.push_back(median);
    longest.push_back(most);
    pauses.push_back(std::max(0.0, most - median));
  }
  const std::string name = strategy + (slow ? ", disk of 100 MB/s" : ", this disk");
  report.Add(bench::MedianRow(name + ": longest step in a checkpoint", longest, "ms", "median step", usual));
  report.Add(bench::MedianRow(name + ": pause", pauses, "ms", "", {}, bench::ValueAtMost(kMaxPause)));
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double bytes = args.Number("--megabytes", 256) * 1e6;
  const double seconds = args.Number("--seconds", 15);
  const auto runs = static_cast<int>(args.Number("--runs", 3));
  const std::string only = args.String("--only", "");
  args.RefuseTheRest();
  constexpr std::array kStrategies{"async", "sync", "allreduce"};
  if (!only.empty() && std::ranges::find(kStrategies, only) == kStrategies.end()) {
    std::fprintf(stderr, "no rows '%s'; there are: async sync allreduce\n", only.c_str());
    return 2;
  }
  setenv("LEAT_TOKEN", kToken, 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  bench::Report report("pause", args);
  try {
    for (const char* strategy : kStrategies) {
      if (!only.empty() && only != strategy) continue;
      for (const bool slow : {false, true}) Measure(report, strategy, bytes, seconds, runs, slow);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench pause: %s\n", e.what());
    return 1;
  }
  return report.Finish();
}
