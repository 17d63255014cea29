// Training steps of every family of networks in one thread, compared with PyTorch, JAX and the machine's
// peak.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "compute/kernels/cpu/table.h"
#include "frame/baseline.h"
#include "frame/families.h"
#include "frame/heap.h"
#include "frame/measure.h"
#include "frame/peak.h"
#include "frame/products.h"
#include "frame/program.h"
#include "frame/report.h"
#include "frame/training.h"

namespace {

using namespace leat;

// The bound on the ratio of Leat's step time to that of the fastest framework.
constexpr double kMaxRatio = 1;
constexpr int kTurns = 5;
// Number of first steps whose losses must be equal in all frameworks, except for rounding.
constexpr int kComparedSteps = 10;
constexpr double kMaxWrong = 0.01;

// A benchmark case and its units.
struct Case {
  bench::TrainingCase training;
  double scale = 1e3;  // units per second
  std::string unit = "ms";
  std::vector<int64_t> products = {};  // sizes of a dense network, to measure its matrix products alone
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (bench::TrainingCase& training : bench::Families()) {
    const std::string name = training.name;
    Case c{.training = std::move(training)};
    if (name == "mlp") c.products = {784, 512, 512, 10};
    if (name == "tabular") {
      c.scale = 1e6;
      c.unit = "µs";
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

// Prints the kernels of a step, the slowest first.
void PrintProfile(const bench::TrainingCase& c, double peak) {
  bench::Training training(c, {});
  training.Step();
  std::vector<engine::StepTime> times = training.plan().Profile(50);
  std::ranges::sort(times, std::greater(), &engine::StepTime::us);
  double sum = 0;
  for (const auto& time : times) sum += time.us;
  std::printf("%s: %.1f µs in %zu kernels\n%10s %7s %9s  kernel\n", c.name.c_str(), sum, times.size(), "µs",
              "share", "of peak");
  for (const auto& time : times) {
    if (time.us < sum / 200) break;
    std::printf("%10.1f %5.1f %% %7.1f %%  %s\n", time.us, 100 * time.us / sum,
                100 * time.flops / (time.us * 1e-6) / peak, time.text.c_str());
  }
}

// A framework in one of its modes.
struct Contender {
  bench::Baseline* process;
  std::string version;  // "PyTorch 2.15.0"
  std::string mode;
};

// The timeout of loading a case, which includes compilation.
constexpr double kLoadSeconds = 900, kPatienceSeconds = 300;

// Builds the case in the framework, trains the first steps and compares the losses with Leat's. Returns the
// framework's description of its mode and kernels.
std::string Load(const Contender& c, const std::string& name, const std::string& directory,
                 const std::vector<double>& losses) {
  std::istringstream answer(c.process->Ask(
      "load " + name + " " + c.mode + " " + directory + " " + std::to_string(losses.size()), kLoadSeconds));
  std::vector<double> theirs(losses.size());
  for (double& loss : theirs) answer >> loss;
  if (!answer) throw std::runtime_error(c.version + ", " + name + ", " + c.mode + ": no losses");
  // The first loss checks the forward pass, the decrease of the others the gradients and the update.
  const double learnt = losses.front() - losses.back();
  const double wrong = std::max(std::abs(theirs.front() - losses.front()) / std::abs(losses.front()),
                                std::abs(theirs.front() - theirs.back() - learnt) / std::abs(learnt));
  if (!(wrong <= kMaxWrong)) {
    std::ostringstream what;
    what << c.version << ", " << c.mode << " differs from Leat in " << name << ": its loss goes from "
         << theirs.front() << " to " << theirs.back() << " in " << losses.size() << " steps, Leat's from "
         << losses.front() << " to " << losses.back();
    throw std::runtime_error(what.str());
  }
  std::string description;
  std::getline(answer >> std::ws, description);
  return c.version + " " + description;
}

// Measures Leat and each framework in turn, so that a temporary slowdown affects all alike. Adds a row for
// each, the fastest first; only that row has the bound.
double AgainstFrameworks(bench::Report& report, const Case& c, bench::Training& training,
                         const std::vector<Contender>& contenders, double seconds) {
  const bench::Scratch scratch("engine");
  training.Save(scratch / "");
  std::vector<double> losses;
  for (int i = 0; i < kComparedSteps; ++i) {
    training.Step();
    losses.push_back(training.loss());
  }
  struct Times {
    std::string who;
    std::vector<double> ours, theirs;
  };
  std::vector<Times> all;
  for (const Contender& contender : contenders) {
    all.push_back({.who = Load(contender, c.training.name, scratch / "", losses)});
  }
  const double share = seconds / static_cast<double>(2 * kTurns * contenders.size());
  const std::string measured = "measure " + c.training.name + " ";
  std::vector<double> ours;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      ours.push_back(bench::Measure([&] { training.Step(); }, share, bench::Time::kThread) * c.scale);
      all[i].ours.push_back(ours.back());
      const std::string answer = contenders[i].process->Ask(
          measured + contenders[i].mode + " " + std::to_string(share), kPatienceSeconds);
      all[i].theirs.push_back(std::stod(answer) * c.scale);
    }
  }
  std::ranges::sort(all, {}, [](const Times& times) { return bench::Median(times.theirs); });
  for (const Times& times : all) {
    report.Add(bench::MedianRow(c.training.name + " step", times.ours, c.unit, times.who, times.theirs,
                                &times == all.data() ? bench::RatioAtMost(kMaxRatio) : bench::Bound()));
  }
  return bench::Median(ours) / c.scale;
}

void Run(bench::Report& report, const Case& c, const std::vector<Contender>& frameworks, double peak,
         double seconds) {
  const std::string& name = c.training.name;
  bench::Training training(c.training, {.kind = optim::Kind::kSgd, .learning_rate = 0.001f});
  std::vector<Contender> contenders = frameworks;
  // A channels-last layout makes no difference for the other families.
  if (name != "lenet")
    std::erase_if(contenders, [](const auto& f) { return f.mode.ends_with("channels_last"); });
  const double step = AgainstFrameworks(report, c, training, contenders, seconds);
  if (!std::isfinite(training.loss())) throw std::runtime_error(name + ": the loss is no longer finite");
  report.Add({.name = name + " above the floor",
              .value = step * c.scale,
              .unit = c.unit,
              .reference = "its FLOPs at the peak of a core",
              .reference_value = training.flops() / peak * c.scale,
              .runs = static_cast<size_t>(kTurns) * contenders.size()});
  if (cpu::Table().fast_bf16) {
    bench::Training narrow(c.training, {.kind = optim::Kind::kSgd, .learning_rate = 0.001f}, true);
    const auto against =
        bench::Compare([&] { narrow.Step(); }, [&] { training.Step(); }, seconds / 2, bench::Time::kThread);
    report.Add({.name = name + " step in bf16",
                .value = against.a * c.scale,
                .unit = c.unit,
                .reference = "the same in f32",
                .reference_value = against.b * c.scale,
                .ratio = against.ratio,
                .runs = against.runs});
  }
  if (!c.products.empty()) {
    const bench::Products products(c.products, c.training.batch);
    const auto against =
        bench::Compare([&] { training.Step(); }, [&] { products.Run(); }, seconds / 2, bench::Time::kThread);
    report.Add({.name = name + " step",
                .value = against.a * c.scale,
                .unit = c.unit,
                .reference = "its oneDNN matmuls",
                .reference_value = against.b * c.scale,
                .ratio = against.ratio,
                .runs = against.runs,
                .bound = bench::RatioAtMost(1.15)});
  }
  report.Add({.name = name + " arena",
              .value = static_cast<double>(training.plan().arena_bytes()) / 1048576,
              .unit = "MiB",
              .reference = "largest live set",
              .reference_value = static_cast<double>(training.plan().largest_live_bytes()) / 1048576,
              .bound = name == "lenet" ? bench::RatioAtMost(1.2) : bench::Bound()});
  const bench::HeapCounts heap = [&] {
    const bench::HeapWatch watch;
    training.Step();
    return watch.counts();
  }();
  report.Add({.name = name + " allocations of a step",
              .value = static_cast<double>(heap.own),
              .unit = "",
              .reference = "oneDNN's own",
              .reference_value = static_cast<double>(heap.dnnl),
              .bound = bench::ValueAtMost(0)});
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double seconds = args.Number("--seconds", 6);
  const std::string only = args.String("--case", "");
  const bool profile = args.Flag("--profile");
  args.RefuseTheRest();

  std::vector<Case> cases = Cases();
  if (!only.empty()) std::erase_if(cases, [&](const Case& c) { return c.training.name != only; });
  if (cases.empty()) {
    std::fprintf(stderr, "unknown case %s; must be mlp, tabular, lenet, lstm or transformer\n", only.c_str());
    return 2;
  }
  const double peak = bench::PeakFlops();
  if (profile) {
    for (const Case& c : cases) PrintProfile(c.training, peak);
    return 0;
  }
  bench::Report report("engine", args);
  try {
    const std::string python = bench::EnvironmentPython("frameworks");
    const auto start = [](const std::string& interpreter, const std::string& script) {
      return std::make_unique<bench::Baseline>(interpreter + " " + script,
                                               std::vector<std::string>{interpreter, LEAT_BENCH "/" + script},
                                               bench::ThreadSettings(1));
    };
    const auto newest = start(python, "engine_torch.py"),
               debian = start("/usr/bin/python3", "engine_torch.py"), jax = start(python, "engine_jax.py");
    const std::string newest_version = newest->ReadLine(kPatienceSeconds),
                      debian_version = "Debian's " + debian->ReadLine(kPatienceSeconds),
                      jax_version = jax->ReadLine(kPatienceSeconds);
    const std::vector<Contender> frameworks = {{newest.get(), newest_version, "eager"},
                                               {newest.get(), newest_version, "channels_last"},
                                               {newest.get(), newest_version, "compile"},
                                               {newest.get(), newest_version, "compile_channels_last"},
                                               {debian.get(), debian_version, "eager"},
                                               {debian.get(), debian_version, "channels_last"},
                                               {jax.get(), jax_version, "jit"}};
    for (const Case& c : cases) Run(report, c, frameworks, peak, seconds);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench engine: %s\n", e.what());
    return 1;
  }
  report.Note("one thread each, SGD update included, CPU time; all start from the same parameters and data");
  return report.Finish();
}
