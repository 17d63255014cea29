// Scaling from one worker to two: two one-thread workers of the real program on two cores, compared with one
// worker that does not communicate. The baselines are PyTorch's DDP and, for jobs with a parameter server,
// TensorFlow's ParameterServerStrategy.

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "compute/optim/optimizer.h"
#include "frame/baseline.h"
#include "frame/images.h"
#include "frame/measure.h"
#include "frame/program.h"
#include "frame/report.h"
#include "job/job.h"
#include "protocol/parameters.h"
#include "run/roles/input/split_loader.h"
#include "train/step/trainer.h"

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
  std::string torch;  // name of the case in scaling_torch.py
  const char* model;
  uint32_t batch;
  std::string strategy;
  double least;
};
const std::array<Case, 3> kCases{{{"mlp", "mlp", kMlp, 128, "allreduce", 1.65},
                                  {"lenet", "lenet", kLenet, 64, "allreduce", 1.85},
                                  {"mlp-ps", "mlp", kMlp, 128, "sync", 1.3}}};

constexpr uint32_t kSplitBatches = 16;

// Image files whose partitions all have the same number of batches.
struct Images {
  Images(const bench::Scratch& scratch, const std::string& name, uint32_t how_many)
      : images(scratch / (name + "-images")), labels(scratch / (name + "-labels")), count(how_many) {
    bench::WriteImages(images, labels, count);
  }
  std::string images, labels;
  uint32_t count;
};

std::string JobText(const Case& c, const Images& images, uint32_t epochs) {
  return "name: scaling\nseed: 1\n" + bench::ImagesJob(images.images, images.labels, epochs) + c.model +
         "optimizer: {type: sgd, learning_rate: 0.001}\nstrategy: " + c.strategy +
         "\ntrain: {batch_size: " + std::to_string(c.batch) +
         ", split_batches: " + std::to_string(kSplitBatches) + "}\ncluster: {workers: 2, ps: 1}\n" +
         "checkpoint: {interval_s: 600}\n";
}

// A worker without servers and other workers: reads, decodes, computes and updates in one thread.
class Alone {
 public:
  explicit Alone(const job::Job& job)
      : job_(job), parameters_(job.Slices()), trainer_(*job.model, parameters_, Kernels()) {
    auto source = job.stream->Open();
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

  void Step() {
    if (batch_ == 0) {
      if (auto read = reader_->Read(&split_); !read.ok()) throw std::runtime_error(read.ToString());
    }
    const step::Rows rows{
        .features = split_.rows.features, .labels = split_.rows.labels, .truth = split_.rows.truth};
    const auto& variables = parameters_.table().variables;
    if (!trainer_.Step(rows, split_.Batch(batch_), job_.batch_size).finite)
      throw std::runtime_error("a gradient is not finite");
    ++step_;
    for (size_t v = 0; v < variables.size(); ++v) {
      optim::Apply(job_.optimizer, parameters_.values(v), parameters_.gradients(v), {}, step_, 1);
    }
    batch_ = (batch_ + 1) % static_cast<uint32_t>(split_.lease.cut.batches());
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
  uint32_t batch_ = 0;  // next batch of the split
  protocol::Parameters parameters_;
  step::Trainer trainer_;
  uint64_t step_ = 0;
};

// The length of a turn: much longer than refilling the caches, shorter than most disturbances by other load.
constexpr double kTurn = 2;

double Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Something that is measured in turns.
struct Rate {
  double events = 0;
  double seconds = 0;
  double value() const { return seconds > 0 ? events / seconds : 0; }
};

void TakeTurn(Alone& alone, double batch, double seconds, Rate* rate) {
  const double begin = Now();
  do {
    alone.Step();
    rate->events += batch;
  } while (Now() < begin + seconds);
  rate->seconds += Now() - begin;
}

// A second such worker in another process, stopped except during common turns. The two exchange no data.
// Running freely, they show the machine's limit with shared caches and memory. Running in step, where each
// waits after every batch for the other, they show the limit of all synchronous methods.
class Other {
 public:
  explicit Other(const job::Job& job) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
    shared_ = new (memory) Shared;
    pid_ = fork();
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      try {
        for (Alone worker(job);;) {
          worker.Step();
          const uint64_t done = ++shared_->other;
          while (shared_->in_step && shared_->mine < done) sched_yield();
        }
      } catch (const std::exception& e) {
        std::fprintf(stderr, "bench scaling: %s\n", e.what());
      }
      _exit(1);
    }
    while (shared_->other == 0 && alive()) usleep(1000);
    kill(pid_, SIGSTOP);
  }
  ~Other() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    munmap(shared_, sizeof(Shared));
  }
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void TakeTurn(Alone& with, double batch, double seconds, bool in_step, Rate* rate) {
    shared_->in_step = in_step;
    shared_->mine = shared_->other.load();
    kill(pid_, SIGCONT);
    const auto step = [&] {
      with.Step();
      const uint64_t done = ++shared_->mine;
      while (in_step && shared_->other < done) {
        sched_yield();
        if (!alive()) throw std::runtime_error("the other worker has ended");
      }
    };
    // It may have been stopped in the middle of a batch.
    if (in_step) step();
    const uint64_t before = shared_->other;
    const double begin = Now();
    do {
      step();
      rate->events += batch;
    } while (Now() < begin + seconds);
    rate->seconds += Now() - begin;
    kill(pid_, SIGSTOP);
    rate->events += batch * static_cast<double>(shared_->other - before);
  }

 private:
  struct Shared {
    std::atomic<uint64_t> mine = 0;  // batches
    alignas(64) std::atomic<uint64_t> other = 0;
    std::atomic<bool> in_step = false;
  };

  bool alive() {
    if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
    return pid_ > 0;
  }

  Shared* shared_ = nullptr;
  pid_t pid_ = -1;
};

// The program with two workers, training on `images` for a number of epochs.
class Together {
 public:
  Together(const bench::Scratch& scratch, const Case& c, const std::string& name, const Images& images,
           uint32_t epochs)
      : events_(1.0 * epochs * images.count),
        program_(Arguments(scratch, c, name, images, epochs), scratch / (name + ".log")) {}

  // Runs for one turn and is stopped in between. The first turn is longer than the start of the job. Returns
  // false after its end.
  bool TakeTurn(double seconds) {
    program_.Continue();
    if (!stood_.empty()) stood_.back().seconds = Now() - stood_.back().since;
    if (!program_.WaitFor(seconds)) return false;
    program_.Pause();
    stood_.push_back({.since = Now()});
    return true;
  }

  // The events per second of the whole job, after its end.
  Rate rate() {
    const int status = program_.Wait();
    const std::string said = program_.Output();
    if (status != 0) throw std::runtime_error("the job failed: " + said);
    const auto summary = nlohmann::json::parse(said.substr(said.rfind("\n{") + 1), nullptr, false);
    if (summary.is_discarded()) throw std::runtime_error("there is no summary: " + said);
    if (summary.value("events", 0.0) != events_)
      throw std::runtime_error("not every event was trained: " + said);
    double training = summary.value("training_s", 0.0);
    // The start of the job, less than a turn, and a stop after the last event are not subtracted.
    const double ended = begun_ + training;
    for (const Stop& stop : stood_) {
      if (stop.since < ended) training -= stop.seconds;
    }
    return {.events = events_, .seconds = training};
  }

 private:
  static std::vector<std::string> Arguments(const bench::Scratch& scratch, const Case& c,
                                            const std::string& name, const Images& images, uint32_t epochs) {
    const std::string job = scratch / (name + ".yaml");
    std::ofstream(job) << JobText(c, images, epochs);
    return {"train", job, "--directory", scratch / name, "--json"};
  }

  struct Stop {
    double since;
    double seconds = 0;
  };

  double events_;
  std::vector<Stop> stood_;
  double begun_ = Now();
  bench::Running program_;
};

// A baseline that trains the case with one worker and with two.
struct Rival {
  std::string name;
  std::vector<std::string> words;  // its command line, without the last two arguments: workers and seconds
  // Events per second of all workers, one value per run.
  std::vector<double> ones = {}, twos = {};
  std::string version = {};

  void Measure(double seconds) {
    ones.push_back(Run(1, seconds));
    twos.push_back(Run(2, seconds));
  }

 private:
  double Run(int workers, double seconds) {
    std::vector<std::string> all = words;
    all.push_back(std::to_string(workers));
    all.push_back(std::to_string(seconds));
    bench::Baseline baseline(name, all, bench::ThreadSettings(1));
    // Loading a framework's libraries into all processes may take minutes on a busy machine.
    const std::string said = baseline.Finish(240 + 5 * seconds);
    std::istringstream in(said);
    double rate = 0;
    if (!(in >> rate >> version) || rate <= 0) throw std::runtime_error(name + " printed no rate: " + said);
    return rate;
  }
};

std::vector<Rival> RivalsOf(const Case& c, const Images& images) {
  const std::string batch = std::to_string(c.batch);
  if (c.strategy == "allreduce") {
    return {{"PyTorch DDP", {bench::EnvironmentPython("frameworks"), LEAT_TORCH_SCRIPT, c.torch, batch}}};
  }
  return {{"TensorFlow ParameterServerStrategy",
           {bench::EnvironmentPython("tensorflow"), LEAT_TENSORFLOW_SCRIPT, images.images, images.labels,
            batch}}};
}

// Events per second of each run: one worker alone, two workers of the program, and two independent workers.
struct Rates {
  std::vector<double> ones, twos, frees, steps;
};

void AddRows(bench::Report& report, const Case& c, const Rates& rates, const std::vector<Rival>& rivals) {
  const std::string ours = c.name + ", 2 workers, " + c.strategy, alone = "1 worker alone";
  report.Add(bench::MedianRow(ours, rates.twos, "events/s", alone, rates.ones, bench::RatioAtLeast(c.least)));
  report.Add(bench::MedianRow(c.name + ", 2 alone, in step", rates.steps, "events/s", alone, rates.ones));
  report.Add(bench::MedianRow(c.name + ", 2 alone", rates.frees, "events/s", alone, rates.ones));
  for (const Rival& rival : rivals) {
    const std::string name = rival.name + " " + rival.version;
    report.Add(bench::MedianRow(c.name + ", " + name + ", 2 workers", rival.twos, "events/s", "its 1 worker",
                                rival.ones));
    // No bound for DDP: it trains the same batch repeatedly and reads no data.
    const bool bounded = c.strategy != "allreduce";
    report.Add(bench::MedianRow(ours, rates.twos, "events/s", name + ", 2 workers", rival.twos,
                                bounded ? bench::RatioAtLeast(1) : bench::Bound()));
  }
}

// All candidates take turns, so that a temporary slowdown affects all alike.
void Measure(bench::Report& report, const Case& c, int runs, double seconds, bool with_rivals) {
  const bench::Scratch scratch("scaling");
  const Images images(scratch, "all", 10'240);
  const std::string job_file = scratch / "job.yaml";
  std::ofstream(job_file) << JobText(c, images, 1);
  const auto job = job::Job::Load({.file = job_file, .text = {}, .resume = {}}, {});
  std::vector<Rival> rivals;
  if (with_rivals) rivals = RivalsOf(c, images);
  Alone alone(job);
  alone.Step();
  Rates rates;
  for (int run = 0; run < runs; ++run) {
    Rate one, free, in_step;
    TakeTurn(alone, c.batch, kTurn, &one);
    const auto epochs = static_cast<uint32_t>(1.5 * one.value() * seconds / images.count) + 1;
    Other other(job);
    Together both(scratch, c, "run-" + std::to_string(run), images, epochs);
    one = {};
    while (both.TakeTurn(kTurn)) {
      TakeTurn(alone, c.batch, kTurn, &one);
      other.TakeTurn(alone, c.batch, kTurn, false, &free);
      other.TakeTurn(alone, c.batch, kTurn, true, &in_step);
    }
    rates.twos.push_back(both.rate().value());
    rates.ones.push_back(one.value());
    rates.frees.push_back(free.value());
    rates.steps.push_back(in_step.value());
    for (Rival& rival : rivals) rival.Measure(seconds);
  }
  AddRows(report, c, rates, rivals);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const bool rivals = !args.Flag("--no-baselines");
  const std::string only = args.String("--case", "");
  const int runs = static_cast<int>(args.Number("--runs", 3));
  const double seconds = args.Number("--seconds", 8);
  args.RefuseTheRest();
  setenv("OMP_NUM_THREADS", "1", 1);
  bench::UseCores(2);
  bench::Report report("scaling", args);
  if (!rivals) report.Skip("baselines: disabled by --no-baselines");
  try {
    for (const Case& c : kCases) {
      if (only.empty() || only == c.name) Measure(report, c, runs, seconds, rivals);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench scaling: %s\n", e.what());
    return 1;
  }
  return report.Finish();
}
