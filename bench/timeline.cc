// The cost of a recording (docs/timeline.md). A training step in one thread is measured with a recorder that
// is off, and with one that is on, and compared with a step without a recorder. A job is measured in turn
// while it is recorded and while it is not.
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

#include "base/recorder/recorder.h"
#include "base/rng.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/session.h"
#include "job/job.h"
#include "net/rpc/client.h"
#include "protocol/parameters.h"
#include "run/launcher/admin.h"
#include "train/step/trainer.h"

namespace {

using namespace leat;
using bench::CheckInterrupted;

constexpr const char* kToken = "of this run alone";
constexpr uint32_t kBatch = 128;
constexpr uint32_t kFields = 30;

std::string JobText(const std::string& rows) {
  std::string fields;
  for (uint32_t i = 0; i < kFields; ++i) fields += "x" + std::to_string(i) + ": {type: number}, ";
  return "name: timeline\nseed: 1\nstream: {epochs: 100000, files: {format: csv, paths: [\"" + rows +
         "\"], partitions: 4, header: false}}\nschema: {format: csv, delimiter: \",\", fields: {" + fields +
         "y: {type: number, role: label}}}\n"
         "model:\n  layers:\n    - dense: {units: 64, activation: relu}\n    - dense: {units: 32, "
         "activation: relu}\n"
         "    - dense: {units: 2}\n  loss: softmax_cross_entropy\n"
         "optimizer: {type: sgd, learning_rate: 0.01}\nstrategy: async\ntrain: {batch_size: " +
         std::to_string(kBatch) + "}\ncheckpoint: {interval_s: 1000000}\ncluster: {workers: 2, ps: 1}\n";
}

void WriteRows(const std::string& path, uint32_t rows) {
  Rng rng(1);
  std::ofstream out(path);
  char text[16];
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t i = 0; i < kFields; ++i) {
      std::snprintf(text, sizeof(text), "%.4f,", rng.Normal());
      out << text;
    }
    out << rng.Below(2) << "\n";
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

// The computation of a worker on one batch, again and again.
class Worker {
 public:
  Worker(const job::Job& job, timeline::Track* track)
      : parameters_(job.Slices()), trainer_(*job.model, parameters_, Kernels()) {
    Rng rng(2);
    for (float& x : features_) x = static_cast<float>(rng.Normal());
    for (uint32_t i = 0; i < kBatch; ++i) {
      labels_[i] = static_cast<float>(rng.Below(2));
      batch_[i] = i;
    }
    trainer_.RecordTo(track);
    trainer_.Prepare(kBatch);
  }
  void Step() { trainer_.Step({.features = features_, .labels = labels_, .truth = {}}, batch_, kBatch); }

 private:
  static engine::PlanOptions Kernels() {
    engine::PlanOptions options;
    options.tables = {&cpu::Table(), &reference::Kernels()};
    options.passes = ops::StandardPasses();
    return options;
  }

  protocol::Parameters parameters_;
  step::Trainer trainer_;
  std::vector<float> features_ = std::vector<float>(kBatch * kFields);
  std::vector<float> labels_ = std::vector<float>(kBatch);
  std::vector<uint32_t> batch_ = std::vector<uint32_t>(kBatch);
};

void Steps(bench::Report& report, const job::Job& job, double seconds) {
  timeline::Recorder recorder;
  timeline::Track* const track = recorder.MakeTrack("compute");
  Worker without(job, nullptr), with(job, track);
  const auto add = [&](const std::string& name, bench::Bound bound, const std::function<void()>& step) {
    const auto time = bench::Compare(
        step, [&] { without.Step(); }, seconds, bench::Time::kThread);
    report.Add({.name = name,
                .value = time.a * 1e6,
                .unit = "µs",
                .reference = "the same without a track",
                .reference_value = time.b * 1e6,
                .ratio = time.ratio,
                .runs = time.runs,
                .bound = bound});
  };
  add("step, nothing is recorded", bench::RatioAtMost(1.01), [&] { with.Step(); });
  recorder.Begin();
  uint32_t steps = 0;
  add("step, recorded", bench::RatioAtMost(1.02), [&] {
    with.Step();
    // As a role's other thread does, but here its time counts, too.
    if (++steps % 1024 == 0) recorder.Take();
  });
}

// A job in processes of its own.
class RunningJob {
 public:
  explicit RunningJob(const bench::Scratch& scratch)
      : program_({"train", scratch / "job.yaml", "--directory", scratch / "job", "--listen", "127.0.0.1:0"},
                 scratch / "out") {
    std::string address;
    const std::string log = scratch / "job" + std::string("/logs/coordinator.log");
    bench::WaitFor("the coordinator did not start", program_, [&] {
      std::ifstream in(log);
      const std::string said{std::istreambuf_iterator<char>(in), {}};
      const auto at = said.find("serves on ");
      if (at == std::string::npos) return false;
      address = said.substr(at + 10, said.find(' ', at + 10) - at - 10);
      return true;
    });
    client_ = control::ControlClient::Make(address, kToken);
    bench::WaitFor("nothing is trained", program_, [&] { return Events() > 100'000; });
  }

  uint64_t Events() {
    const auto reply = client_->Call(protocol::StatusRequest{}, std::chrono::seconds(10));
    if (!reply.ok()) throw std::runtime_error(reply.status().ToString());
    return nlohmann::json::parse(std::get<protocol::StatusReply>(*reply).json).value("events", uint64_t{0});
  }
  // Events per second for so long.
  double Rate(double seconds) {
    const MonotonicClock clock;
    const Time begin = clock.Now();
    const uint64_t before = Events();
    std::this_thread::sleep_for(FromSeconds(seconds));
    const uint64_t after = Events();
    return static_cast<double>(after - before) / Seconds(clock.Now() - begin);
  }
  control::ControlClient& client() { return *client_; }

 private:
  bench::Running program_;
  std::unique_ptr<control::ControlClient> client_;
};

void Jobs(bench::Report& report, const bench::Scratch& scratch, int runs, double seconds) {
  RunningJob job(scratch);
  std::vector<double> recorded, alone;
  for (int run = 0; run < runs; ++run) {
    CheckInterrupted();
    bench::PrintProgress("pair %d of %d", run + 1, runs);
    Result<timeline::Recorded> trace = Status(Code::kUnavailable, "not yet");
    std::thread records([&] { trace = launcher::RecordTimeline(job.client(), FromSeconds(seconds)); });
    // All roles have been told by then.
    std::this_thread::sleep_for(std::chrono::seconds(1));
    recorded.push_back(job.Rate(seconds));
    records.join();
    if (!trace.ok()) throw std::runtime_error(trace.status().ToString());
    for (const auto& [process, tracks] : trace->processes) {
      if (!process.missing.empty()) throw std::runtime_error(process.name + ": " + process.missing);
    }
    alone.push_back(job.Rate(seconds));
  }
  bench::PrintProgress("");
  report.Add(bench::MedianRow("events a second of a job, recorded", recorded, "events/s",
                              "the same job otherwise", alone, bench::RatioAtLeast(0.98)));
}

int Run(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double seconds = args.Number("--seconds", 3);
  const int runs = static_cast<int>(args.Number("--runs", 15));
  args.RefuseTheRest();
  setenv("LEAT_TOKEN", kToken, 1);

  bench::Report report("timeline", args);
  const bench::Scratch scratch("timeline");
  WriteRows(scratch / "rows.csv", 50'000);
  const std::string text = JobText(scratch / "rows.csv");
  std::ofstream(scratch / "job.yaml") << text;
  Steps(report, job::Job::FromText(text, "job"), 2 * seconds);
  Jobs(report, scratch, runs, seconds);
  report.Note("network 30-64-32-2, batch 128; the job: asynchronous, 2 workers, 1 ps; pairs of " +
              std::to_string(seconds).substr(0, 3) + " s in turn, in one job");
  return report.Finish();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::Main("timeline", Run, argc, argv);
}
