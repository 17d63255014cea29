#include "show/tensorboard/job_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/config/config.h"

namespace leat::tensorboard {
namespace {

nn::Model MakeModel() {
  return nn::Model::FromConfig(
      Config::Parse("inputs: 4\nlayers:\n  - dense: {units: 3, activation: relu}\n"
                    "  - dense: {units: 2, device: \"cpu:1\"}\nloss: softmax_cross_entropy\n",
                    "job.yaml"),
      {});
}

Graph GraphOf(const Placement& placement) {
  const nn::Model model = MakeModel();
  return JobGraph(model.Build(8), model.variables(), placement, "adam");
}

const GraphNode& Node(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes, name, &GraphNode::name);
  EXPECT_NE(found, graph.nodes.end()) << name;
  static const GraphNode kNone;
  return found == graph.nodes.end() ? kNone : *found;
}

// Names are unique, and inputs are nodes.
void ExpectWhole(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& node : graph.nodes) EXPECT_TRUE(names.insert(node.name).second) << node.name;
  for (const auto& node : graph.nodes) {
    for (std::string input : node.inputs) {
      if (input.starts_with('^')) input.erase(0, 1);
      EXPECT_TRUE(names.contains(input.substr(0, input.find(':')))) << node.name << " reads " << input;
    }
  }
}

TEST(JobGraph, VariablesAreOnTheirServers) {
  const Graph graph = GraphOf(Placement({{"dense1/weight", 0, {{1, 48}}},
                                         {"dense1/bias", 0, {{0, 12}}},
                                         {"dense2/weight", 0, {{0, 16}, {2, 8}}}}));
  ExpectWhole(graph);
  EXPECT_EQ(Node(graph, "dense1/weight").device, "/job:ps/task:1");
  EXPECT_EQ(Node(graph, "dense1/weight").op, "variable");
  EXPECT_EQ(Node(graph, "dense1/weight").shapes, (std::vector<std::vector<int64_t>>{{4, 3}}));
  EXPECT_EQ(Node(graph, "dense1/weight").attributes.at("bytes"), "48");
  EXPECT_EQ(Node(graph, "dense1/bias").device, "/job:ps/task:0");
  // A variable that has no place yet.
  EXPECT_EQ(Node(graph, "dense2/bias").device, "");
  // A variable that is divided.
  EXPECT_EQ(Node(graph, "dense2/weight").op, "concat");
  EXPECT_EQ(Node(graph, "dense2/weight").device, "/job:worker/task:0");
  EXPECT_EQ(Node(graph, "dense2/weight").inputs,
            (std::vector<std::string>{"dense2/weight/ps_0", "dense2/weight/ps_2"}));
  EXPECT_EQ(Node(graph, "dense2/weight/ps_2").device, "/job:ps/task:2");
  EXPECT_EQ(Node(graph, "dense2/weight/ps_2/apply_adam").device, "/job:ps/task:2");
}

TEST(JobGraph, GradientsGoToTheServers) {
  const nn::Model model = MakeModel();
  const nn::StepGraph step = model.Build(8);
  const Graph graph = GraphOf(Placement({{"dense1/weight", 0, {{1, 48}}}}));
  const GraphNode& apply = Node(graph, "dense1/weight/apply_adam");
  EXPECT_EQ(apply.op, "apply_adam");
  EXPECT_EQ(apply.device, "/job:ps/task:1");
  EXPECT_EQ(apply.inputs,
            (std::vector<std::string>{"dense1/weight", step.graph.node(step.gradients[0]).name}));
}

TEST(JobGraph, OpsAreOnTheWorker) {
  const Graph graph = GraphOf(Placement(std::vector<report::VariableStatus>()));
  EXPECT_EQ(Node(graph, "features").device, "/job:worker/task:0");
  EXPECT_EQ(Node(graph, "dense1/matmul").device, "/job:worker/task:0");
  EXPECT_EQ(Node(graph, "dense1/matmul").inputs, (std::vector<std::string>{"features", "dense1/weight"}));
  EXPECT_EQ(Node(graph, "dense1/matmul").shapes, (std::vector<std::vector<int64_t>>{{8, 3}}));
  EXPECT_EQ(Node(graph, "dense2/matmul").device, "/job:worker/task:0/device:CPU:1");
}

TEST(JobGraph, WithoutServers) {
  const Graph graph = GraphOf(std::nullopt);
  ExpectWhole(graph);
  for (const auto& node : graph.nodes)
    EXPECT_TRUE(node.device.starts_with("/job:worker/task:0")) << node.name;
  EXPECT_EQ(Node(graph, "dense1/weight/apply_adam").inputs,
            (std::vector<std::string>{"dense1/weight", "dense1/weight/all_reduce"}));
}

}  // namespace
}  // namespace leat::tensorboard
