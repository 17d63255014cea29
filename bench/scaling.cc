// What a second worker brings: two one-thread workers of the real program on two cores, against one worker
// that has nobody to talk to, and the same of PyTorch's DDP beside it.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "images.h"
#include "kernels/onednn/table.h"
#include "kernels/reference/reference.h"
#include "measure.h"
#include "ops/fuse.h"
#include "optim/optimizer.h"
#include "program.h"
#include "protocol/parameters.h"
#include "report.h"
#include "train/job.h"
#include "train/split_loader.h"
#include "trainer/trainer.h"

namespace {

using namespace leat;

constexpr const char* kMlp =
    "model:\n  layers:\n"
    "    - dense: {units: 512, activation: relu}\n    - dense: {units: 512, activation: relu}\n"
    "    - dense: {units: 10}\n  loss: softmax_cross_entropy\n";
constexpr const char* kLenet =
    "model:\n  inputs: [28, 28, 1]\n  layers:\n"
    "    - conv2d: {filters: 32, kernel: 5, padding: same, activation: relu}\n    - max_pool: {size: 2}\n"
    "    - conv2d: {filters: 64, kernel: 5, padding: same, activation: relu}\n    - max_pool: {size: 2}\n"
    "    - flatten\n    - dense: {units: 512, activation: relu}\n    - dense: {units: 10}\n"
    "  loss: softmax_cross_entropy\n";

struct Case {
  std::string name;
  std::string torch;  // the case of scaling_torch.py
  const char* model;
  uint32_t batch;
  std::string strategy;
  double least;
};
const std::array<Case, 3> kCases{{{"mlp", "mlp", kMlp, 128, "allreduce", 1.65},
                                  {"lenet", "lenet", kLenet, 64, "allreduce", 1.85},
                                  {"mlp-ps", "mlp", kMlp, 128, "sync", 1.3}}};

constexpr uint32_t kImages = 10'240;
constexpr uint32_t kSplitBatches = 16;

std::string JobText(const Case& c, const bench::Scratch& scratch, uint32_t epochs) {
  return "name: scaling\nseed: 1\n" + bench::ImagesJob(scratch / "images", scratch / "labels", epochs) +
         c.model + "optimizer: {type: sgd, learning_rate: 0.001}\nstrategy: " + c.strategy +
         "\ntrain: {batch_size: " + std::to_string(c.batch) +
         ", split_batches: " + std::to_string(kSplitBatches) + "}\ncluster: {workers: 2, ps: 1}\n" +
         "checkpoint: {interval_s: 600}\n";
}

// A worker without servers or others: reads, decodes, computes and updates, in one thread.
class Alone {
 public:
  explicit Alone(const train::Job& job)
      : job_(job), parameters_(job.Slices()), trainer_(*job.model, parameters_, Kernels()) {
    auto source = job.OpenSource();
    if (!source.ok()) throw std::runtime_error(source.status().ToString());
    reader_.emplace(std::move(*source), job.schema);
    split_.lease.cut = {.end = uint64_t{job.batch_size} * job.split_batches,
                        .batch_size = job.batch_size,
                        .shuffle_seed = job.Cuts().shuffle_seed};
    const auto& table = parameters_.table();
    for (size_t v = 0; v < table.variables.size(); ++v) {
      optim::Initialise(table.variables[v].init, table.seed, table.variables[v].name, 0,
                        parameters_.values(v));
    }
  }

  double events() const { return split_.lease.cut.events(); }
  void Train() {
    if (auto read = reader_->Read(&split_); !read.ok()) throw std::runtime_error(read.ToString());
    const trainer::Rows rows{
        .features = split_.rows.features, .labels = split_.rows.labels, .truth = split_.rows.truth};
    const auto& variables = parameters_.table().variables;
    for (uint32_t i = 0; i < split_.lease.cut.batches(); ++i) {
      if (!trainer_.Step(rows, split_.Batch(i), job_.batch_size).finite)
        throw std::runtime_error("a gradient is not finite");
      ++step_;
      for (size_t v = 0; v < variables.size(); ++v) {
        optim::Apply(job_.optimizer, parameters_.values(v), parameters_.gradients(v), {}, step_, 1);
      }
    }
  }

 private:
  static engine::PlanOptions Kernels() {
    engine::PlanOptions options;
    options.tables = {&onednn::Table(), &reference::Kernels()};
    options.passes = ops::StandardPasses();
    return options;
  }

  const train::Job& job_;
  std::optional<train::SplitReader> reader_;
  train::PreparedSplit split_;
  protocol::Parameters parameters_;
  trainer::Trainer trainer_;
  uint64_t step_ = 0;
};

// Events a second of two such workers at a time that know nothing of each other: what the machine has to
// give, its caches and memory being shared.
double Apart(const train::Job& job, Alone& alone, double seconds) {
  const pid_t other = fork();
  if (other < 0) throw std::runtime_error("fork failed");
  if (other == 0) {
    Alone its(job);
    for (;;) its.Train();
  }
  bench::Measure([&] { alone.Train(); }, seconds / 4, bench::Time::kWall);  // the other begins
  const double rate =
      2 * alone.events() / bench::Measure([&] { alone.Train(); }, seconds / 2, bench::Time::kWall);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  return rate;
}

// Seconds that the program's two workers train for.
double Seconds(const bench::Scratch& scratch, const Case& c, const std::string& name, uint32_t epochs) {
  const std::string job = scratch / (name + ".yaml");
  std::ofstream(job) << JobText(c, scratch, epochs);
  bench::Running program({"train", job, "--directory", scratch / name, "--json"}, scratch / (name + ".log"));
  const int status = program.Wait();
  const std::string said = program.Output();
  if (status != 0) throw std::runtime_error("the job failed: " + said);
  const auto summary = nlohmann::json::parse(said.substr(said.rfind("\n{") + 1), nullptr, false);
  if (summary.is_discarded()) throw std::runtime_error("there is no summary: " + said);
  if (summary.value("events", uint64_t{0}) != uint64_t{epochs} * kImages)
    throw std::runtime_error("not every event was trained: " + said);
  return epochs * double{kImages} / summary.value("events_per_s", 0.0);
}

// Events a second of the program with two workers, `epochs` after the first: what beginning and ending take
// is not counted, as it is not of those that this is compared with.
double Together(const bench::Scratch& scratch, const Case& c, const std::string& name, uint32_t epochs) {
  const double first = Seconds(scratch, c, name + "-first", 1);
  return epochs * double{kImages} / (Seconds(scratch, c, name, 1 + epochs) - first);
}

// Examples a second of PyTorch with so many workers; 0 when there is none.
double Torch(const Case& c, int workers, double seconds) {
  const std::string command = "/usr/bin/python3 " + std::string(LEAT_TORCH_SCRIPT) + " " + c.torch + " " +
                              std::to_string(c.batch) + " " + std::to_string(workers) + " " +
                              std::to_string(seconds) + " 2>/dev/null";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  double rate = 0;
  if (fscanf(pipe, "%lf", &rate) != 1) rate = 0;
  pclose(pipe);
  return rate;
}

void Measure(bench::Report& report, const Case& c, int runs, double seconds, bool torch) {
  const bench::Scratch scratch("scaling");
  bench::WriteImages(scratch / "images", scratch / "labels", kImages);
  const std::string job_file = scratch / "job.yaml";
  std::ofstream(job_file) << JobText(c, scratch, 1);
  const auto job = train::Job::Load({.file = job_file, .text = {}, .resume = {}}, {});
  Alone alone(job);
  std::vector<double> ones, twos, ratios, aparts, apart_ratios, torch_ones, torch_twos, torch_ratios;
  for (int run = 0; run < runs; ++run) {
    const auto one = [&] {
      return alone.events() / bench::Measure([&] { alone.Train(); }, seconds / 2, bench::Time::kWall);
    };
    // What slows the machine for a while slows both: one worker is measured before and after.
    const double before = one();
    const auto epochs = static_cast<uint32_t>(1.5 * before * seconds / kImages) + 1;
    const double two = Together(scratch, c, "run-" + std::to_string(run), epochs);
    ones.push_back((before + one()) / 2);
    twos.push_back(two);
    ratios.push_back(two / ones.back());
    aparts.push_back(Apart(job, alone, seconds));
    apart_ratios.push_back(aparts.back() / ones.back());
    if (!torch) continue;
    torch_ones.push_back(Torch(c, 1, seconds));
    torch_twos.push_back(Torch(c, 2, seconds));
    if (torch_ones.back() > 0) torch_ratios.push_back(torch_twos.back() / torch_ones.back());
  }
  char bound[32];
  std::snprintf(bound, sizeof bound, "≥ %.2f", c.least);
  const auto row = [&](const std::string& name, const std::vector<double>& values, const char* reference,
                       const std::vector<double>& references, const std::vector<double>& of,
                       const char* must_be = "") {
    report.Add({.name = c.name + ", " + name,
                .value = bench::Median(values),
                .unit = "events/s",
                .reference = reference,
                .reference_value = bench::Median(references),
                .ratio = bench::Median(of),
                .bound = must_be});
  };
  row("2 workers, " + c.strategy, twos, "1 worker alone", ones, ratios, bound);
  row("2 workers, each alone", aparts, "1 worker alone", ones, apart_ratios);
  if (torch_ratios.empty()) return;
  row("PyTorch DDP, 2 workers", torch_twos, "PyTorch alone", torch_ones, torch_ratios);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const bool json = args.Flag("--json");
  const bool no_torch = args.Flag("--no-torch");
  const std::string only = args.String("--case", "");
  const int runs = static_cast<int>(args.Number("--runs", 3));
  const double seconds = args.Number("--seconds", 6);
  args.RefuseTheRest();
  setenv("OMP_NUM_THREADS", "1", 1);
  bench::UseCores(2);
  bench::Report report("scaling", json);
  try {
    for (const Case& c : kCases) {
      // DDP has no servers to compare mlp-ps with.
      if (only.empty() || only == c.name) Measure(report, c, runs, seconds, !no_torch && c.name == c.torch);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench scaling: %s\n", e.what());
    return 1;
  }
  return 0;
}
