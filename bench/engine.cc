// Training steps of every family of network in one thread, against PyTorch's in turn and the machine's peak.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "frame/families.h"
#include "frame/heap.h"
#include "frame/measure.h"
#include "frame/peak.h"
#include "frame/products.h"
#include "frame/report.h"
#include "frame/torch.h"
#include "frame/training.h"
#include "kernels/onednn/table.h"

namespace {

using namespace leat;

// How a case is shown, and what it must reach.
struct Case {
  bench::TrainingCase training;
  double scale = 1e3;  // units a second
  std::string unit = "ms";
  double most = 1;                     // of the ratio to PyTorch
  std::vector<int64_t> products = {};  // sizes of a dense network whose products alone are measured too
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
    c.most = name == "mlp"       ? 0.55
             : name == "tabular" ? 0.20
             : name == "lenet"   ? 0.65
             : name == "lstm"    ? 0.40
                                 : 0.70;
    cases.push_back(std::move(c));
  }
  return cases;
}

// Where a step's time goes, the dearest kernels first.
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

// Leat and PyTorch in turn, a share of the time each: what slows the machine for a while slows both.
bench::Comparison AgainstTorch(bench::Training& training, bench::Torch& torch, const std::string& name,
                               double seconds) {
  constexpr int kTurns = 5;
  const double share = seconds / (2 * kTurns);
  std::vector<double> ours, theirs, ratios;
  for (int i = 0; i < kTurns; ++i) {
    ours.push_back(bench::Measure([&] { training.Step(); }, share, bench::Time::kThread));
    theirs.push_back(torch.Step(name, share));
    if (theirs.back() > 0) ratios.push_back(ours.back() / theirs.back());
  }
  return {bench::Median(ours), bench::Median(theirs), bench::Median(ratios), ratios.size()};
}

void Run(bench::Report& report, const Case& c, bench::Torch& torch, double peak, double seconds) {
  const std::string& name = c.training.name;
  bench::Training training(c.training, {.kind = optim::Kind::kSgd, .learning_rate = 0.001f});
  const bench::Comparison time = AgainstTorch(training, torch, name, seconds);
  if (!std::isfinite(training.loss())) {
    std::fprintf(stderr, "%s: the loss is no longer finite\n", name.c_str());
    std::exit(1);
  }
  report.Add({.name = name + " step",
              .value = time.a * c.scale,
              .unit = c.unit,
              .reference = time.b > 0 ? "PyTorch" : "",
              .reference_value = time.b * c.scale,
              .ratio = time.ratio,
              .runs = time.runs,
              .bound = bench::RatioAtMost(c.most)});
  report.Add({.name = name + " above the floor",
              .value = time.a * c.scale,
              .unit = c.unit,
              .reference = "its FLOPs at the peak of a core",
              .reference_value = training.flops() / peak * c.scale,
              .runs = time.runs});
  if (onednn::Table().fast_bf16) {
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
    std::fprintf(stderr, "no case %s: mlp, tabular, lenet, lstm or transformer\n", only.c_str());
    return 2;
  }
  const double peak = bench::PeakFlops();
  if (profile) {
    for (const Case& c : cases) PrintProfile(c.training, peak);
    return 0;
  }
  bench::Torch torch;
  bench::Report report("engine", args);
  if (torch.version().empty())
    report.Note("PyTorch is not there: install python3-torch and libopenblas0-pthread");
  for (const Case& c : cases) Run(report, c, torch, peak, seconds);
  report.Note("one thread each, SGD update included, processor time; " +
              (torch.version().empty() ? std::string("no PyTorch") : torch.version()));
  return report.Finish();
}
