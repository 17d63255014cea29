#include "compute/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compute/graph/builtin.h"
#include "compute/graph/kernel.h"
#include "compute/graph/pass.h"

namespace leat::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An op with one input, two outputs and no gradient.
class Split final : public Op {
 public:
  explicit Split(int n = 0) : number(n) {}
  std::string_view kind() const override { return "split"; }
  std::vector<TensorType> Infer(std::span<const TensorType> inputs) const override {
    CheckInputCount(inputs, 1);
    return {inputs[0], inputs[0]};
  }
  std::string attributes() const override { return number == 0 ? "" : "number=" + std::to_string(number); }

  const int number;
};

const TensorType kPair{DType::kF32, {2}};

TEST(Graph, NumbersNamesThatAreTaken) {
  Graph graph;
  graph.MakeNamed<Placeholder>("x", {}, kPair);
  const Value second = graph.MakeNamed<Placeholder>("x", {}, kPair);
  EXPECT_EQ(graph.node(second).name, "x_1");
  EXPECT_EQ(graph.Find("x_1"), second.node);
  EXPECT_EQ(graph.Find("y"), std::nullopt);
}

TEST(Graph, ScopesNestAndEnd) {
  Graph graph;
  {
    Graph::Scope outer(graph, "block", "job.yaml:3");
    Graph::Scope inner(graph, "dense");
    const Value v = graph.MakeNamed<Variable>("weight", {}, kPair);
    EXPECT_EQ(graph.node(v).name, "block/dense/weight");
    EXPECT_EQ(graph.node(v).where, "job.yaml:3");
  }
  const Value v = graph.Make<Variable>({}, kPair);
  EXPECT_EQ(graph.node(v).name, "variable");
  EXPECT_EQ(graph.node(v).where, "");
}

TEST(Graph, PrintsALineANode) {
  Graph graph;
  const Value x = graph.MakeNamed<Placeholder>("x", {}, kPair);
  const Value c = graph.MakeNamed<Constant>("c", {}, Shape{2}, 0.5f);
  const Value s = graph.MakeNamed<Split>("s", {x}, 7);
  graph.Add(std::make_shared<AddN>(), {{s.node, 1}, c}, "sum", {x.node, c.node});
  EXPECT_EQ(graph.ToString(),
            "x = placeholder() : f32[2]\n"
            "c = constant() value=0.5 : f32[2]\n"
            "s = split(x) number=7 : f32[2], f32[2]\n"
            "sum = add_n(s:1, c) after x, c : f32[2]\n");
}

TEST(Graph, RefusesWithOpNodeAndLine) {
  Graph graph;
  const Value x = graph.Make<Placeholder>({}, kPair), y = graph.Make<Placeholder>({}, TensorType{});
  Graph::Scope scope(graph, "layer", "job.yaml:9");
  EXPECT_THAT(
      [&] {
        graph.Make<AddN>({x, y});
      },
      ::testing::ThrowsMessage<std::invalid_argument>(
          "[add_n] shapes [2] and [] differ, node \"layer/add_n\", job.yaml:9"));
  // A rejected node leaves the graph unchanged.
  EXPECT_EQ(graph.nodes().size(), 2u);
  EXPECT_EQ(graph.node(graph.Make<AddN>({x})).name, "layer/add_n");
}

TEST(Graph, ReferencesToNodesOutliveItsGrowth) {
  Graph graph;
  const Node& first = graph.node(graph.MakeNamed<Placeholder>("x", {}, kPair));
  for (int i = 0; i < 1000; ++i) graph.Make<Placeholder>({}, kPair);
  EXPECT_EQ(first.name, "x");
}

TEST(Constant, PrintsItsElementsOrAChecksum) {
  EXPECT_EQ(Constant(2.5f).attributes(), "value=2.5");
  EXPECT_EQ(Constant(Shape{100}, 0).attributes(), "value=0");
  EXPECT_EQ(Constant(Tensor::Of<float>({3}, std::vector<float>{1, -2, 0.1f})).attributes(),
            "values=[1, -2, 0.1]");
  EXPECT_EQ(Constant(Tensor(DType::kF32, {0})).attributes(), "values=[]");
  const Tensor many = Tensor::Of<float>({5}, std::vector<float>{1, 2, 3, 4, 5});
  const Tensor other = Tensor::Of<float>({5}, std::vector<float>{1, 2, 3, 4, 6});
  EXPECT_THAT(Constant(many).attributes(), HasSubstr("checksum="));
  EXPECT_NE(Constant(many).attributes(), Constant(other).attributes());
}

TEST(Gradients, NameTheNodeThatHasNone) {
  Graph graph;
  const Value x = graph.MakeNamed<Placeholder>("x", {}, TensorType{});
  Graph::Scope scope(graph, "layer", "job.yaml:9");
  const Value loss = graph.Make<Split>({x});
  EXPECT_THAT([&] { Gradients(graph, loss, std::vector{x}); },
              ::testing::ThrowsMessage<std::invalid_argument>(
                  "[split] has no gradient, node \"layer/split\", job.yaml:9"));
  // An op without a gradient is fine if the loss does not depend on it.
  const Value sum = graph.Make<AddN>({x, x});
  EXPECT_NO_THROW(Gradients(graph, sum, std::vector{x}));
}

TEST(Gradients, StandUnderTheNodeTheyComeFrom) {
  Graph graph;
  const Value x = graph.MakeNamed<Placeholder>("x", {}, TensorType{});
  Value y = x;
  {
    Graph::Scope scope(graph, "layer", "job.yaml:9", "cpu:1");
    y = graph.MakeNamed<AddN>("twice", {x, x});
    y = graph.MakeNamed<AddN>("again", {y, y});
  }
  const Value grad = Gradients(graph, y, std::vector{x})[0];
  EXPECT_EQ(graph.node(grad).name, "grad/x/add_n");
  EXPECT_EQ(graph.node(grad).device, "");
  // Gradient nodes get the device of the node that they differentiate.
  const auto sum = graph.Find("grad/layer/twice/add_n");
  ASSERT_TRUE(sum);
  EXPECT_EQ(graph.node(*sum).device, "cpu:1");
  EXPECT_EQ(graph.node(*sum).where, "job.yaml:9");
}

TEST(Prune, KeepsInputsAndControlDependencies) {
  Graph graph;
  const Value x = graph.MakeNamed<Placeholder>("x", {}, kPair);
  const Value before = graph.MakeNamed<AddN>("before", {x});
  graph.MakeNamed<AddN>("dropped", {x});
  const Value kept = graph.Add(std::make_shared<AddN>(), {x}, "kept", {before.node});
  graph.MakeNamed<AddN>("after", {kept});
  const Rewrite pruned = Prune(graph, std::vector{kept});
  EXPECT_EQ(pruned.graph.ToString(),
            "x = placeholder() : f32[2]\n"
            "before = add_n(x) : f32[2]\n"
            "kept = add_n(x) after before : f32[2]\n");
  EXPECT_EQ(pruned.At(kept), (Value{2, 0}));
  EXPECT_EQ(pruned.Find({*graph.Find("dropped"), 0}), std::nullopt);
}

TEST(MergeCommon, ComputesEqualNodesOnce) {
  Graph graph;
  const Value x = graph.MakeNamed<Placeholder>("x", {}, kPair),
              y = graph.MakeNamed<Placeholder>("y", {}, kPair);
  const Value a = graph.Make<Split>({x}, 1), b = graph.Make<Split>({x}, 1);
  const Value other_attribute = graph.Make<Split>({x}, 2), other_input = graph.Make<Split>({y}, 1);
  const Value other_order = graph.Add(std::make_shared<Split>(1), {x}, "", {y.node});
  const Value sum_a = graph.Make<AddN>({{a.node, 1}, y}), sum_b = graph.Make<AddN>({{b.node, 1}, y});
  const Rewrite merged = MergeCommon(graph, std::vector{sum_a, sum_b});
  EXPECT_EQ(merged.At(a), merged.At(b));
  EXPECT_EQ(merged.At(sum_a), merged.At(sum_b));
  EXPECT_NE(merged.At(x), merged.At(y));
  EXPECT_NE(merged.At(a), merged.At(other_attribute));
  EXPECT_NE(merged.At(a), merged.At(other_input));
  EXPECT_NE(merged.At(a), merged.At(other_order));
  EXPECT_EQ(merged.graph.nodes().size(), graph.nodes().size() - 2);
}

TEST(MergeCommon, TellsConstantsApart) {
  Graph graph;
  const Value two = graph.Make<Constant>({}, Shape{2}, 0.0f),
              three = graph.Make<Constant>({}, Shape{3}, 0.0f);
  const Value again = graph.Make<Constant>({}, Shape{2}, 0.0f);
  const Value one = graph.Make<Constant>({}, Shape{2}, 1.0f),
              minus_zero = graph.Make<Constant>({}, Shape{2}, -0.0f);
  const Rewrite merged = MergeCommon(graph, {});
  EXPECT_EQ(merged.At(two), merged.At(again));
  EXPECT_NE(merged.At(two), merged.At(three));
  EXPECT_NE(merged.At(two), merged.At(one));
  EXPECT_NE(merged.At(two), merged.At(minus_zero));
}

TEST(CountUses, CountsReadersAndWhatIsKept) {
  Graph graph;
  const Value x = graph.Make<Placeholder>({}, kPair);
  const Value s = graph.Make<Split>({x});
  const Value sum = graph.Make<AddN>({s, s, {s.node, 1}});
  EXPECT_THAT(CountUses(graph, std::vector{sum, Value{s.node, 1}}),
              ElementsAre(ElementsAre(1), ElementsAre(2, 2), ElementsAre(1)));
}

TEST(KernelTableDeathTest, RejectsASecondRowForAnOp) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  KernelTable table;
  const auto declines = [](const KernelRequest&) { return nullptr; };
  table.Add("neg", declines);
  table.Add("abs", declines);
  EXPECT_EQ(table.factories.size(), 2u);
  EXPECT_DEATH(table.Add("neg", declines), "is_new");
}

}  // namespace
}  // namespace leat::graph
