// Python's cost per step, and the same step in scikit-learn and PyTorch: batches of 128 rows of 30
// features, a network of 30-64-32-2, Adam, one thread. The sides take turns, in processes of their own.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/passes.h"
#include "frame/baseline.h"
#include "frame/report.h"
#include "frame/session.h"
#include "train/learner/learner.h"

namespace leat {
namespace {

constexpr uint32_t kRows = 128, kWidth = 30;

class Native {
 public:
  Native() : learner_(Options()), features_(kRows * kWidth), labels_(kRows) {
    Rng rng(1);
    for (float& x : features_) x = static_cast<float>(rng.Normal());
    for (uint32_t i = 0; i < kRows; ++i) labels_[i] = features_[i * kWidth] > 0 ? 1.0f : 0.0f;
    Step();
  }

  // The median of the time of a step, in seconds.
  double Measure(double seconds) {
    using Clock = std::chrono::steady_clock;
    constexpr int kSteps = 16;
    std::vector<double> times;
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < until) {
      const auto begin = Clock::now();
      for (int i = 0; i < kSteps; ++i) Step();
      times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / kSteps);
    }
    std::ranges::nth_element(times, times.begin() + static_cast<ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2];
  }

 private:
  static Learner::Options Options() {
    const Config config = Config::Parse(
        "layers:\n  - dense: {units: 64, activation: relu}\n  - dense: {units: 32, activation: relu}\n"
        "  - dense: {units: 2}\nloss: softmax_cross_entropy\n",
        "model");
    Learner::Options options{
        .model = std::make_shared<const nn::Model>(nn::Model::FromConfig(config, {.features = kWidth})),
        .optimizer = optim::Defaults(optim::Kind::kAdam),
        .plan = {}};
    options.optimizer.learning_rate = 1e-3f;
    options.plan.tables = {&cpu::Table(), &reference::Kernels()};
    options.plan.passes = ops::StandardPasses();
    options.batch_size = kRows;
    return options;
  }
  void Step() { learner_.Learn({.features = features_, .labels = labels_, .truth = {}}); }

  Learner learner_;
  std::vector<float> features_, labels_;
};

struct Side {
  Side(const std::string& name, const std::string& interpreter)
      : process("python_fit.py " + name, {interpreter, LEAT_BENCH "/python_fit.py", name}, Settings()) {
    version = process.ReadLine(120);
  }
  static std::vector<std::string> Settings() {
    std::vector<std::string> settings = bench::ThreadSettings(1);
    settings.emplace_back("PYTHONPATH=" LEAT_PYTHON_PACKAGE);
    return settings;
  }
  double Measure(double seconds) {
    return std::stod(process.Ask("measure " + std::to_string(seconds), seconds + 60));
  }
  bench::Baseline process;
  std::string version;
};

int Run(int argc, char** argv) {
  bench::Args args(argc, argv);
  const auto runs = static_cast<int>(args.Number("--runs", 9));
  const double seconds = args.Number("--seconds", 0.3);
  const bool torch_too = !args.Flag("--no-torch");
  const std::string wheel = args.String("--wheel", "");
  args.RefuseTheRest();
  bench::Report report("python", args);

  Native native;
  const std::string python = bench::EnvironmentPython("python");
  Side leat("leat", python), sklearn("sklearn", python);
  std::unique_ptr<Side> torch;
  if (torch_too) {
    torch = std::make_unique<Side>("torch", bench::EnvironmentPython("frameworks"));
  } else {
    report.Skip("PyTorch: disabled by --no-torch");
  }

  std::vector<double> native_us, leat_us, sklearn_us, torch_us, import_ms, import_native_ms;
  for (int run = 0; run < runs; ++run) {
    bench::PrintProgress("run %d of %d", run + 1, runs);
    native_us.push_back(1e6 * native.Measure(seconds));
    leat_us.push_back(1e6 * leat.Measure(seconds));
    sklearn_us.push_back(1e6 * sklearn.Measure(seconds));
    if (torch) torch_us.push_back(1e6 * torch->Measure(seconds));
    std::istringstream imports(leat.process.Ask("import", 60));
    double alone = 0, both = 0;
    imports >> alone >> both;
    import_ms.push_back(1e3 * alone);
    import_native_ms.push_back(1e3 * both);
  }
  report.Add(bench::MedianRow("partial_fit", leat_us, "us", "the same step in C++", native_us,
                              bench::RatioAtMost(1.3)));
  report.Add(bench::MedianRow("partial_fit of " + sklearn.version, sklearn_us, "us", "partial_fit of Leat",
                              leat_us, bench::RatioAtLeast(5)));
  if (torch)
    report.Add(bench::MedianRow("a loop of " + torch->version, torch_us, "us", "partial_fit of Leat", leat_us,
                                bench::RatioAtLeast(3)));
  report.Add(bench::MedianRow("import leat", import_ms, "ms", {}, {}, bench::ValueAtMost(100)));
  report.Add(bench::MedianRow("import leat, with the native module", import_native_ms, "ms", {}, {},
                              bench::ValueAtMost(100)));
  if (!wheel.empty())
    report.Add({.name = "wheel",
                .value = static_cast<double>(std::filesystem::file_size(wheel)) / 1e6,
                .unit = "MB",
                .bound = bench::ValueAtMost(40)});
  return report.Finish();
}

}  // namespace
}  // namespace leat

int main(int argc, char** argv) {
  return leat::bench::Main("python", leat::Run, argc, argv);
}
