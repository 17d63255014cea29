// A training step of a dense network with its update, in one thread, compared with its matrix products alone.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "frame/measure.h"
#include "frame/peak.h"
#include "frame/products.h"
#include "frame/report.h"
#include "frame/training.h"

namespace {

using namespace leat;

constexpr int64_t kBatch = 128;

struct Case {
  std::string name;
  std::vector<int64_t> sizes;
  double scale;  // units per second
  std::string unit;
  bench::Bound bound;
};

void Run(bench::Report& report, const Case& c, double peak, double seconds) {
  bench::Training trainer(bench::DenseCase(c.name, c.sizes, kBatch),
                          {.kind = optim::Kind::kSgd, .learning_rate = 0.001f});
  const bench::Products products(c.sizes, kBatch);
  const auto time =
      bench::Compare([&] { trainer.Step(); }, [&] { products.Run(); }, seconds, bench::Time::kThread);
  if (!std::isfinite(trainer.loss())) {
    std::fprintf(stderr, "%s: the loss is no longer finite\n", c.name.c_str());
    std::exit(1);
  }
  report.Add({.name = c.name + " step",
              .value = time.a * c.scale,
              .unit = c.unit,
              .reference = "its oneDNN matmuls",
              .reference_value = time.b * c.scale,
              .ratio = time.ratio,
              .runs = time.runs,
              .bound = c.bound});
  report.Add({.name = c.name + " of the machine's peak",
              .value = products.flops() / time.a * 1e-9,
              .unit = "GFLOP/s",
              .reference = "FMA peak of a core",
              .reference_value = peak * 1e-9,
              .runs = time.runs});
}

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double seconds = args.Number("--seconds", 4);
  args.RefuseTheRest();

  bench::Report report("step", args);
  const double peak = bench::PeakFlops();
  Run(report, {"mlp 784-512-512-10", {784, 512, 512, 10}, 1e3, "ms", bench::RatioAtMost(1.25)}, peak,
      seconds);
  Run(report, {"tabular 30-64-32-2", {30, 64, 32, 2}, 1e6, "µs", {}}, peak, seconds / 2);
  report.Note("batch 128, softmax cross entropy, SGD update included; CPU time of one thread");
  return report.Finish();
}
