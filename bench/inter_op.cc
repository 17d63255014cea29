// The speedup by a second core of a graph with two equal branches: as a thread of one device
// (inter_op_threads), and as a second device, which costs transfers.

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "compute/engine/devices/devices.h"
#include "compute/engine/plan.h"
#include "compute/graph/builtin.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "frame/measure.h"
#include "frame/report.h"

namespace {

using namespace leat;

// A graph of two chains of matrix products, from one input to one sum.
class Branches {
 public:
  Branches(int64_t size, int length) {
    const TensorType type{DType::kF32, {size, size}};
    const graph::Value x = graph_.Make<graph::Placeholder>({}, type);
    feeds_ = {x};
    graph::Value ends[2] = {x, x};
    for (graph::Value& end : ends) {
      const graph::Value weight = graph_.Make<graph::Variable>({}, type);
      feeds_.push_back(weight);
      for (int i = 0; i < length; ++i)
        end = graph_.Make<ops::Tanh>({graph_.Make<ops::MatMul>({end, weight})});
    }
    fetches_ = {graph_.Make<ops::Add>({ends[0], ends[1]})};
    Rng rng(1);
    for (graph::Value feed : feeds_) {
      data_.emplace_back(graph_.type(feed));
      for (float& e : data_.back().as<float>()) e = static_cast<float>(rng.Uniform() - 0.5) * 0.1f;
    }
  }

  std::unique_ptr<engine::Plan> Compile(int threads, int devices) const {
    engine::PlanOptions options;
    options.tables = {&cpu::Table(), &reference::Kernels()};
    options.inter_op_threads = threads;
    options.machine = engine::Discover({.cpu_devices = devices});
    auto plan = engine::CompileMeasured(graph_, fetches_, options);
    for (size_t f = 0; f < feeds_.size(); ++f) plan->Bind(feeds_[f], data_[f].raw());
    return plan;
  }

 private:
  graph::Graph graph_;
  std::vector<graph::Value> feeds_, fetches_;
  std::vector<Tensor> data_;
};

}  // namespace

int main(int argc, char** argv) {
  bench::Args args(argc, argv);
  const double seconds = args.Number("--seconds", 4);
  args.RefuseTheRest();

  bench::Report report("inter_op", args);
  if (engine::UsableCores() < 2) {
    report.Skip("two branches in parallel: needs two cores");
    return report.Finish();
  }
  struct Case {
    std::string name;
    int64_t size;
    int length;
    bench::Bound bound;
  };
  for (const Case& c : {Case{"two branches of 4 ms", 512, 4, bench::RatioAtLeast(1.7)},
                        Case{"two branches of 0.5 ms", 256, 4, {}}}) {
    const Branches branches(c.size, c.length);
    const auto alone = branches.Compile(1, 1), two = branches.Compile(2, 1), apart = branches.Compile(1, 2);
    for (const auto& [what, plan, bound] : {std::tuple{"2 threads", two.get(), c.bound},
                                            std::tuple{"2 devices", apart.get(), bench::Bound()}}) {
      const auto times = bench::Compare([&] { alone->Run(); }, [&, p = plan] { p->Run(); }, seconds / 4);
      report.Add({.name = c.name + ", " + what,
                  .value = times.b * 1e6,
                  .unit = "µs",
                  .reference = "one thread",
                  .reference_value = times.a * 1e6,
                  .ratio = times.ratio,
                  .runs = times.runs,
                  .bound = bound});
    }
  }
  report.Note("ratio: time of one thread divided by that of two; needs two idle cores");
  return report.Finish();
}
