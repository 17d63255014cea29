#include "compute/engine/placement/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "compute/engine/testing.h"
#include "compute/graph/builtin.h"

namespace leat::engine {
namespace {

using ::testing::ThrowsMessage;

// Every kernel takes 1 us per element of its node; a transfer takes `wake` plus 2 us per 1000 bytes.
class Scene {
 public:
  explicit Scene(size_t devices, double wake = 1)
      : machine(Devices(devices)), rates{.memory_bytes_per_us = 1000, .wake_us = wake} {}

  Placement Run() {
    std::vector<double> costs;
    for (const graph::Node& node : graph.nodes()) {
      const bool runs = graph::NeedsKernel(*node.op);
      costs.push_back(runs ? static_cast<double>(node.outputs[0].shape.elements()) : 0);
    }
    std::vector<std::vector<double>> by_device(machine->devices.size(), costs);
    for (auto [device, node] : no_kernel) by_device[device][node] = std::numeric_limits<double>::infinity();
    return Place({graph, machine->devices, by_device, rates});
  }

  Graph graph;
  std::shared_ptr<const Machine> machine;
  Rates rates;
  std::vector<std::pair<size_t, NodeIndex>> no_kernel;
};

TEST(Placement, IndependentBranchesGoToDifferentDevices) {
  Scene scene(2);
  const Value x = Feed(scene.graph, "x", {100});
  Value a = x, b = x;
  for (int i = 0; i < 4; ++i) {
    a = scene.graph.Make<ops::Neg>({a});
    b = scene.graph.Make<ops::Exp>({b});
  }
  const Value sum = scene.graph.Make<ops::Add>({a, b});
  const Placement placement = scene.Run();
  EXPECT_NE(placement.devices[a.node], placement.devices[b.node]);
  for (const graph::Node& node : scene.graph.nodes()) {
    const Value branch = node.op->kind() == "neg" ? a : b;
    if (node.inputs.size() != 1) continue;
    EXPECT_EQ(placement.devices[node.index], placement.devices[branch.node]);
  }
  // x is sent to the second device. The result of the other branch is sent there while it still computes.
  EXPECT_NEAR(placement.finish_us, 500 + 1.8, 0.01);
  EXPECT_EQ(placement.priority[sum.node], 100);
  EXPECT_EQ(placement.priority[x.node], 500);
}

TEST(Placement, OneDeviceTakesAllWhenTransfersCostMore) {
  Scene scene(2, 500);
  const Value x = Feed(scene.graph, "x", {100});
  const Value a = scene.graph.Make<ops::Neg>({x}), b = scene.graph.Make<ops::Exp>({x});
  scene.graph.Make<ops::Add>({a, b});
  const Placement placement = scene.Run();
  EXPECT_THAT(placement.devices, ::testing::Each(placement.devices[0]));
  EXPECT_EQ(placement.finish_us, 300);
}

TEST(Placement, AChainStaysTogether) {
  Scene scene(3);
  Value v = Feed(scene.graph, "x", {100});
  for (int i = 0; i < 10; ++i) v = scene.graph.Make<ops::Neg>({v});
  const Placement placement = scene.Run();
  EXPECT_THAT(placement.devices, ::testing::Each(placement.devices[0]));
}

TEST(Placement, ConstraintsAndMissingKernelsDecide) {
  Scene scene(3);
  const Value x = Feed(scene.graph, "x", {100});
  Value a, b;
  {
    const Graph::Scope scope(scene.graph, "", "", "cpu:2");
    a = scene.graph.Make<ops::Neg>({x});
  }
  b = scene.graph.Make<ops::Exp>({a});
  scene.no_kernel = {{0, b.node}, {2, b.node}};
  const Placement placement = scene.Run();
  EXPECT_EQ(placement.devices[a.node], 2u);
  EXPECT_EQ(placement.devices[b.node], 1u);
  EXPECT_EQ(placement.devices[x.node], 2u);  // on the device of its first reader
}

TEST(Placement, ATensorIsCountedOncePerDestination) {
  Scene scene(2, 10);
  const Value x = Feed(scene.graph, "x", {1000});
  Value h, last;
  {
    const Graph::Scope scope(scene.graph, "", "", "cpu:0");
    h = scene.graph.Make<ops::Neg>({x});
  }
  {
    const Graph::Scope scope(scene.graph, "", "", "cpu:1");
    for (int i = 0; i < 3; ++i) last = scene.graph.Make<ops::Exp>({h});
  }
  EXPECT_NEAR(scene.Run().finish_us, 1000 + 18 + 3000, 0.01);
}

TEST(Placement, NamesWhatCannotBe) {
  Scene scene(2);
  const Value x = Feed(scene.graph, "x", {4});
  {
    const Graph::Scope scope(scene.graph, "dense1", "job.yaml:14", "gpu:0");
    scene.graph.Make<ops::Neg>({x});
    scene.graph.Make<ops::Exp>({x});  // the same error
  }
  const Graph::Scope scope(scene.graph, "dense2", "job.yaml:15", "cpu:1");
  scene.no_kernel = {{1, scene.graph.Make<ops::Neg>({x}).node}};
  EXPECT_THAT(
      [&] { scene.Run(); },
      ThrowsMessage<std::invalid_argument>(
          "[neg] unknown device \"gpu:0\"; available: cpu:0, cpu:1, node \"dense1/neg\", job.yaml:14; "
          "[neg] no kernel for f32[4] on \"cpu:1\", node \"dense2/neg\", job.yaml:15"));
}

// Another kind of device needs only a Device and a KernelTable.
TEST(Placement, TablesServeDevicesOfTheirKind) {
  Machine machine = *Devices(2);
  machine.devices[1].name = "toy:0";
  machine.devices[1].kind = "toy";
  KernelTable toy = reference::Kernels();
  toy.backend = "toy";
  toy.device_kind = "toy";
  toy.factories.erase("exp");
  Graph graph;
  const Value x = Feed(graph, "x", {2});
  Value a, b;
  {
    const Graph::Scope scope(graph, "", "", "toy:0");
    a = graph.MakeNamed<ops::Neg>("a", {x});
  }
  b = graph.MakeNamed<ops::Exp>("b", {a});
  PlanOptions options = Options();
  options.tables.push_back(&toy);
  options.machine = std::make_shared<const Machine>(machine);
  options.rates = EagerRates();
  const auto plan = Plan::Compile(graph, std::vector{b}, options);
  EXPECT_THAT(plan->ToString(), ::testing::HasSubstr("a = toy neg"));
  EXPECT_THAT(plan->ToString(), ::testing::HasSubstr("b = reference exp"));
  const Tensor in = Floats({2}, {0, 0});
  plan->Bind(x, in.raw());
  plan->Run();
  EXPECT_EQ(Elements(plan->At(b)), (std::vector<float>{1, 1}));
}

TEST(Costs, GrowWithWorkAndAreReplacedByWhatWasMeasured) {
  const Rates rates{.flops_per_us = 100,
                    .cached_bytes_per_us = 50,
                    .memory_bytes_per_us = 10,
                    .call_us = 1,
                    .wake_us = 5,
                    .cache_bytes = 1000};
  Graph graph;
  const Value x = Feed(graph, "x", {10});
  const Value y = graph.MakeNamed<ops::Neg>("y", {x});
  const Value z = graph.MakeNamed<ops::Neg>("z", {y});
  const Value w = graph.MakeNamed<ops::Neg>("w", {Feed(graph, "big", {200})});
  const MeasuredCosts measured{{"z", 7.0}};
  const std::vector<double> costs = NodeCosts(graph, rates, &measured);
  EXPECT_EQ(costs[x.node], 0);
  EXPECT_DOUBLE_EQ(costs[y.node], 1 + 10 / 100.0 + 80 / 50.0);
  EXPECT_EQ(costs[z.node], 7);
  EXPECT_DOUBLE_EQ(costs[w.node], 1 + 200 / 100.0 + 1600 / 10.0);
  EXPECT_DOUBLE_EQ(TransferUs(rates, 100), 5 + 20);
}

TEST(Costs, OfThisMachineMakeSense) {
  const Rates& rates = MeasuredRates();
  EXPECT_GT(rates.flops_per_us, 100);
  EXPECT_LT(rates.flops_per_us, 1e6);
  EXPECT_GT(rates.cached_bytes_per_us, 100);
  EXPECT_GT(rates.memory_bytes_per_us, 100);
  EXPECT_GT(rates.call_us, 0);
  EXPECT_LT(rates.call_us, 10);
  EXPECT_GT(rates.wake_us, 0);
}

TEST(Costs, MeasuredPlansComputeTheSame) {
  Perceptron model(8, {6, 8, 3});
  PlanOptions options = Queued(2);
  options.passes = ops::StandardPasses();
  options.machine = Devices(2);
  const auto measured = CompileMeasured(model.graph, model.fetches, options);
  const auto plain = model.Compile(Options());
  for (size_t f = 0; f < model.feeds.size(); ++f) measured->Bind(model.feeds[f], model.data[f].raw());
  plain->Run();
  measured->Run();
  for (Value v : model.fetches) EXPECT_EQ(Elements(measured->At(v)), Elements(plain->At(v)));
}

}  // namespace
}  // namespace leat::engine
