// The live path from end to end: the real program trains from a pre-filled log of JSON events. It is compared
// with the speed of the same cores at reading, decoding and computing alone, and with a training loop that
// uses orjson and PyTorch.
//
// With --observed it is compared with itself instead, in pairs of runs: with metrics that are read every
// second and a page that is looked at, and without.

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "frame/baseline.h"
#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/scraper.h"
#include "frame/session.h"
#include "job/job.h"
#include "run/roles/input/split_loader.h"
#include "show/http/listener.h"
#include "stream/bots/testing.h"
#include "stream/log/log.h"
#include "train/step/trainer.h"

namespace {

using namespace leat;
using bench::Check, bench::CheckInterrupted, bench::Fail, bench::PrintProgress;

constexpr int kCores = 2;
constexpr uint32_t kPartitions = 4;
// The loop trains the first events only, enough for some seconds.
constexpr uint64_t kLoopEvents = 500'000;

// ---- the job and its data

// Writes the log, and the first events as JSON lines for the loop.
void Prefill(const std::string& directory, const std::string& lines_file, uint64_t events) {
  constexpr uint64_t kAppend = 2000;
  Check(stream::EmbeddedLog::Create(directory, "events", {.partitions = kPartitions}));
  auto writer = stream::LogWriter::Open(directory, "events");
  Check(writer.status());
  std::ofstream lines(lines_file, std::ios::binary);
  stream::SyntheticEvents synthetic(1);
  std::vector<std::string> texts(kAppend);
  for (uint64_t written = 0, append = 0; written < events; ++append) {
    const auto count = static_cast<size_t>(std::min(kAppend, events - written));
    for (size_t i = 0; i < count; ++i) {
      texts[i].clear();
      synthetic.Next(&texts[i]);
      if (written + i < kLoopEvents) lines << texts[i] << '\n';
    }
    const std::vector<std::string_view> records(texts.begin(), texts.begin() + static_cast<ptrdiff_t>(count));
    Check((*writer)->Append(static_cast<uint32_t>(append % kPartitions), records).status());
    CheckInterrupted();
    written += count;
    PrintProgress("%3.0f %% of %.1f M events written",
                  100.0 * static_cast<double>(written) / static_cast<double>(events),
                  static_cast<double>(events) * 1e-6);
  }
  Check((*writer)->Seal());
  lines.close();
  if (!lines) Fail("cannot write " + lines_file);
}

std::string Indented(const std::string& lines) {
  std::string out;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) out += "  " + line + "\n";
  return out;
}

std::string JobText(const std::string& log, int workers) {
  return "name: ingest\nseed: 1\nstream: {topic: events, log: \"" + log + "\"}\nschema:\n" +
         Indented(stream::SyntheticEvents::SchemaYaml()) +
         "model:\n"
         "  layers:\n"
         "    - dense: {units: 64, activation: relu}\n"
         "    - dense: {units: 32, activation: relu}\n"
         "    - dense: {units: 2}\n"
         "  loss: softmax_cross_entropy\n"
         "optimizer: {type: sgd, learning_rate: 0.05}\n"
         "strategy: async\n"
         "train: {batch_size: 128}\n"
         "cluster: {workers: " +
         std::to_string(workers) + ", ps: 1}\n";
}

// ---- the real program

struct Outcome {
  double events_per_s = 0;
  double cpu_s = 0;                   // processor time of all processes
  std::map<std::string, double> cpu;  // seconds by role, as of the last heartbeats
};

// `options`: further options of the program.
Outcome Train(const bench::Scratch& scratch, const std::string& job, uint64_t events, int run,
              const std::vector<std::string>& options = {}) {
  const std::string name = "job-" + std::to_string(run);
  std::vector<std::string> arguments = {"train", job, "--directory", scratch / name, "--json"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  bench::Running program(arguments, scratch / (name + ".log"));
  const int status = program.Wait();
  const std::string said = program.Output();
  CheckInterrupted();
  if (status != 0) Fail("the job failed: " + said);
  const auto summary = nlohmann::json::parse(said.substr(said.rfind("\n{") + 1), nullptr, false);
  if (summary.is_discarded()) Fail("there is no summary: " + said);
  if (summary.value("events", uint64_t{0}) != events) Fail("not every event was trained: " + said);
  Outcome outcome{.events_per_s = summary.value("events_per_s", 0.0),
                  .cpu_s = summary.value("aggregated_compute_s", 0.0)};
  for (const auto& member : summary.value("members", nlohmann::json::array())) {
    outcome.cpu[member.value("role", "")] += member.value("cpu_s", 0.0);
  }
  return outcome;
}

// ---- the references

// The indispensable work of a worker (read, decode, compute), in one thread.
class Alone {
 public:
  explicit Alone(const job::Job& job)
      : job_(job), parameters_(job.Slices()), trainer_(*job.model, parameters_, Kernels()) {
    auto source = job.stream->Open();
    Check(source.status());
    reader_.emplace(std::move(*source), job.schema);
    split_.lease.cut = {.end = uint64_t{job.batch_size} * job.split_batches,
                        .batch_size = job.batch_size,
                        .shuffle_seed = job.Cuts().shuffle_seed};
    Decode();
  }

  double events() const { return split_.lease.cut.events(); }
  void Decode() { Check(reader_->Read(&split_)); }
  void Compute() {
    const step::Rows rows{
        .features = split_.rows.features, .labels = split_.rows.labels, .truth = split_.rows.truth};
    for (uint32_t i = 0; i < split_.lease.cut.batches(); ++i) {
      if (!trainer_.Step(rows, split_.Batch(i), job_.batch_size).finite) Fail("a gradient is not finite");
    }
  }

 private:
  static engine::PlanOptions Kernels() {
    engine::PlanOptions options;
    options.tables = {&cpu::Table(), &reference::Kernels()};
    options.passes = ops::StandardPasses();
    return options;
  }

  const job::Job& job_;
  std::optional<roles::SplitReader> reader_;
  roles::PreparedSplit split_;
  protocol::Parameters parameters_;
  step::Trainer trainer_;
};

// ---- the training loop with orjson and PyTorch

struct Loop {
  std::string name;  // the libraries and their versions
  double events_per_s = 0;
};

Loop TrainByLoop(const std::string& python, const std::string& lines_file) {
  constexpr double kDeadline = 300;
  bench::Baseline loop("ingest_torch.py", {python, LEAT_LOOP_SCRIPT, lines_file}, bench::ThreadSettings(1));
  std::istringstream said(loop.Finish(kDeadline));
  Loop result;
  if (!(said >> result.events_per_s >> std::ws && std::getline(said, result.name))) {
    Fail("ingest_torch.py printed no rate: " + said.str());
  }
  return result;
}

// The results of all runs, one value per run.
struct Results {
  std::vector<double> rates, cpu, alone, alone_cpu, decode, compute, loop;
  std::map<std::string, std::vector<double>> roles;
  std::string loop_name;
};

void AddRows(bench::Report& report, const Results& all) {
  report.Add(bench::MedianRow("trained events", all.rates, "1/s", "read, decode, compute alone", all.alone,
                              bench::ValueAtLeast(600'000)));
  std::vector<double> a_core = all.rates;
  for (double& rate : a_core) rate /= kCores;
  report.Add(bench::MedianRow("trained events, for each core", a_core, "1/s", all.loop_name + ", one process",
                              all.loop, bench::RatioAtLeast(1)));
  report.Add(
      bench::MedianRow("processor time, all roles", all.cpu, "s/M events", "that alone", all.alone_cpu));
  for (const auto& [role, seconds] : all.roles) {
    report.Add(bench::MedianRow("processor time, " + role, seconds, "s/M events"));
  }
  report.Add(bench::MedianRow("read and decode", all.decode, "1/s of a core"));
  report.Add(bench::MedianRow("forward and backward", all.compute, "1/s of a core"));
}

// ---- the cost of observers

// The order within a pair changes from pair to pair, so that a machine that becomes slower favours neither.
void MeasureObserved(bench::Report& report, const bench::Scratch& scratch, const std::string& job,
                     uint64_t events, int pairs) {
  const std::string token = "bench ingest";
  setenv("LEAT_TOKEN", token.c_str(), 1);
  std::vector<double> with, without, ratios;
  uint64_t pages = 0, bytes = 0;
  const auto observed = [&](int run) {
    const std::string metrics = "127.0.0.1:" + std::to_string(bench::FreePort());
    const std::string page = "127.0.0.1:" + std::to_string(bench::FreePort());
    const bench::Scraper scraper(metrics, observe::ViewToken(token), 1);
    const bench::Viewer viewer(page, observe::ViewToken(token));
    const std::vector<std::string> options = {"--metrics", metrics, "--dashboard", page};
    with.push_back(Train(scratch, job, events, run, options).events_per_s);
    pages += scraper.pages();
    bytes += viewer.bytes();
  };
  for (int pair = 0; pair < pairs; ++pair) {
    PrintProgress("pair %d of %d", pair + 1, pairs);
    const bool first = pair % 2 == 0;
    if (first) observed(2 * pair);
    without.push_back(Train(scratch, job, events, 2 * pair + 1).events_per_s);
    if (!first) observed(2 * pair);
    ratios.push_back(with.back() / without.back());
    CheckInterrupted();
  }
  PrintProgress("");
  if (pages == 0) Fail("no page of metrics could be read");
  if (bytes == 0) Fail("the page could not be followed");
  std::ranges::sort(ratios);
  report.Add(bench::MedianRow("trained events, with metrics and page", with, "1/s", "without", without,
                              bench::RatioAtLeast(0.98)));
  report.Add({.name = "smallest ratio of a pair", .value = ratios.front(), .runs = ratios.size()});
  report.Add({.name = "largest ratio of a pair", .value = ratios.back(), .runs = ratios.size()});
  std::string spread;
  for (const double ratio : ratios) {
    char text[16];
    std::snprintf(text, sizeof text, " %.3f", ratio);
    spread += text;
  }
  report.Note(
      "ratios of the pairs:" + spread + "; " + std::to_string(pages) +
      " pages of metrics read, those of all roles every second; the page followed by a viewer, who got " +
      std::to_string(bytes >> 10) + " KiB");
}

int Run(int argc, char** argv) {
  bench::Args args(argc, argv);
  const int workers = static_cast<int>(args.Number("--workers", 2));
  const int runs = static_cast<int>(args.Number("--runs", 3));
  const bool observed = args.Flag("--observed");
  // A second of start and end would hide what a ratio of 0.98 is about.
  const auto events = static_cast<uint64_t>(args.Number("--events", observed ? 6e6 : 2e6));
  const int pairs = static_cast<int>(args.Number("--pairs", 7));
  args.RefuseTheRest();
  if (events < 40'000 || workers < 1 || runs < 1 || pairs < 1) Fail("too few events, workers, runs or pairs");

  const std::string python = observed ? "" : bench::EnvironmentPython("frameworks");
  setenv("OMP_NUM_THREADS", "1", 1);
  bench::UseCores(kCores);
  const bench::Scratch scratch("ingest");
  Prefill(scratch / "log", scratch / "events.jsonl", events);
  const std::string job_file = scratch / "job.yaml";
  std::ofstream(job_file) << JobText(scratch / "log", workers);
  const auto job = job::Job::Load({.file = job_file, .text = {}, .resume = {}}, {});

  bench::Report report("ingest", args);
  if (observed) {
    MeasureObserved(report, scratch, job_file, events, pairs);
    report.Note("JSON events, network 30-64-32-2, batch 128, " + std::to_string(workers) +
                " workers, 1 ps, asynchronous, " + std::to_string(kCores) + " cores");
    return report.Finish();
  }
  Alone alone(job);
  Results all;
  const double millions = static_cast<double>(events) * 1e-6;
  for (int run = 0; run < runs; ++run) {
    PrintProgress("run %d of %d", run + 1, runs);
    const double decode = bench::Measure([&] { alone.Decode(); }, 0.5, bench::Time::kThread) / alone.events();
    const double compute =
        bench::Measure([&] { alone.Compute(); }, 0.5, bench::Time::kThread) / alone.events();
    all.decode.push_back(1 / decode);
    all.compute.push_back(1 / compute);
    all.alone.push_back(kCores / (decode + compute));
    all.alone_cpu.push_back((decode + compute) * 1e6);
    const auto outcome = Train(scratch, job_file, events, run);
    all.rates.push_back(outcome.events_per_s);
    all.cpu.push_back(outcome.cpu_s / millions);
    for (const auto& [role, seconds] : outcome.cpu) all.roles[role].push_back(seconds / millions);
    const Loop loop = TrainByLoop(python, scratch / "events.jsonl");
    all.loop.push_back(loop.events_per_s);
    all.loop_name = loop.name;
    CheckInterrupted();
  }
  PrintProgress("");
  AddRows(report, all);
  report.Note("30 numbers and a label as JSON, network 30-64-32-2, batch 128, " + std::to_string(workers) +
              " workers, 1 ps, 1 coordinator, asynchronous, " + std::to_string(kCores) +
              " cores; the loop on one; median of " + std::to_string(runs) + " runs");
  return report.Finish();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::Main("ingest", Run, argc, argv);
}
