#include "compute/ops/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compute/engine/plan.h"
#include "compute/graph/graph.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops {
namespace {

size_t Count(const Graph& graph, std::string_view kind) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->kind() == kind; }));
}

// A perceptron with two hidden layers, one of them without activation, and the gradients of its loss.
class Fusion : public ::testing::Test {
 protected:
  Fusion() {
    Value h = Feed<Placeholder>("x", {6, 5});
    h = graph_.MakeNamed<Relu>("relu", {Layer(h, 5, 7, "1")});
    h = graph_.MakeNamed<Tanh>("tanh", {Layer(h, 7, 4, "2")});
    h = Layer(h, 4, 3, "3");
    Value labels = Feed<Placeholder>("labels", {6});
    loss_ = graph_.Make<ReduceMean>({graph_.Make<SoftmaxCrossEntropy>({h, labels})});
  }
  template <class F>
  Value Feed(std::string_view name, Shape shape) {
    const Value v = graph_.MakeNamed<F>(name, {}, TensorType{DType::kF32, shape});
    feeds_.emplace_back(v, DrawSample({graph_.type(v), -1, 1, SampleInput::Draw::kUniform}, feeds_.size()));
    if (std::is_same_v<F, Variable>) variables_.push_back(v);
    return v;
  }
  Value Layer(Value x, int64_t in, int64_t out, const std::string& name) {
    const Value w = Feed<Variable>("w" + name, {in, out}), b = Feed<Variable>("b" + name, {out});
    return graph_.MakeNamed<BiasAdd>("bias" + name, {graph_.MakeNamed<MatMul>("matmul" + name, {x, w}), b});
  }
  std::vector<std::vector<float>> Run(std::span<const Value> fetches, std::vector<graph::Pass> passes) {
    auto plan = engine::Plan::Compile(graph_, fetches,
                                      {.tables = {&reference::Kernels()}, .passes = std::move(passes)});
    for (const auto& [value, tensor] : feeds_) plan->Bind(value, tensor.raw());
    plan->Run();
    std::vector<std::vector<float>> results;
    for (Value v : fetches) {
      const auto elements = plan->At(v).as<float>();
      results.emplace_back(elements.begin(), elements.end());
    }
    return results;
  }

  Graph graph_;
  std::vector<std::pair<Value, Tensor>> feeds_;
  std::vector<Value> variables_;
  Value loss_;
};

TEST_F(Fusion, MakesOneNodeOfEachLayer) {
  const graph::Rewrite fused = FuseDense(graph_, std::vector{loss_});
  EXPECT_EQ(Count(fused.graph, "dense"), 3u);
  EXPECT_EQ(Count(fused.graph, "matmul") + Count(fused.graph, "bias_add") + Count(fused.graph, "relu"), 0u);
  EXPECT_THAT(fused.graph.ToString(),
              ::testing::HasSubstr("relu = dense(x, w1, b1) activation=relu : f32[6, 7]\n"));
  EXPECT_THAT(fused.graph.ToString(),
              ::testing::HasSubstr("bias3 = dense(tanh, w3, b3) activation=none : f32[6, 3]\n"));
}

// A fused relu would make 0 of NaN.
TEST_F(Fusion, LeavesAReluBehindWhatMayBeNan) {
  const auto last_of = [this](Value input) {
    const Value y = graph_.Make<Relu>({Layer(input, 5, 2, "_" + std::to_string(graph_.nodes().size()))});
    const graph::Rewrite fused = FuseDense(graph_, std::vector{y});
    return std::string(fused.graph.node(fused.At(y)).op->kind());
  };
  const Value x = feeds_.front().first;
  const Value five = graph_.Make<graph::Constant>({}, Tensor(DType::kF32, {5}));
  EXPECT_EQ(last_of(graph_.Make<Square>({x})), "dense");
  EXPECT_EQ(last_of(graph_.Make<Power>({x}, 3.0f)), "dense");
  EXPECT_EQ(last_of(graph_.Make<Div>({x, five})), "dense");
  EXPECT_EQ(last_of(graph_.Make<Power>({x}, 0.5f)), "relu");
  EXPECT_EQ(last_of(graph_.Make<Div>({x, x})), "relu");
  EXPECT_EQ(last_of(graph_.Make<Neg>({graph_.Make<Log>({x})})), "relu");
}

TEST_F(Fusion, LeavesATrainingGraphWithDenseForwardAndTheSameGradients) {
  std::vector<Value> fetches = graph::Gradients(graph_, loss_, variables_);
  fetches.push_back(loss_);
  const graph::Rewrite fused = FuseDense(graph_, fetches);
  EXPECT_EQ(Count(fused.graph, "dense"), 3u);
  const auto plain = Run(fetches, {}), fast = Run(fetches, StandardPasses());
  for (size_t i = 0; i < fetches.size(); ++i) {
    EXPECT_THAT(fast[i], ::testing::Pointwise(::testing::FloatNear(1e-6f), plain[i]))
        << graph_.node(fetches[i]).name;
  }
}

TEST_F(Fusion, KeepsWhatSomebodyElseReads) {
  const Value bias1{*graph_.Find("bias1"), 0}, matmul2{*graph_.Find("matmul2"), 0};
  graph_.Make<Exp>({bias1});
  const graph::Rewrite fused = FuseDense(graph_, std::vector{loss_, matmul2});
  // The first layer is fused without its activation, the second not at all.
  EXPECT_THAT(fused.graph.ToString(), ::testing::HasSubstr("bias1 = dense(x, w1, b1) activation=none"));
  EXPECT_THAT(fused.graph.ToString(), ::testing::HasSubstr("relu = relu(bias1)"));
  EXPECT_TRUE(fused.graph.Find("matmul2").has_value());
  EXPECT_EQ(Count(fused.graph, "dense"), 2u);
}

TEST_F(Fusion, KeepsNodesThatAreToRunElsewhere) {
  const Value x = Feed<Placeholder>("input", {2, 3}), b = Feed<Variable>("b", {4});
  const Value w = Feed<Variable>("w", {3, 4});
  Value y;
  {
    const Graph::Scope scope(graph_, "split", "", "cpu:1");
    y = graph_.Make<MatMul>({x, w});
  }
  y = graph_.Make<BiasAdd>({y, b});
  const graph::Rewrite rewrite = FuseDense(graph_, std::vector{y});
  ASSERT_TRUE(rewrite.graph.Find("split/matmul"));
  EXPECT_EQ(rewrite.graph.node(*rewrite.graph.Find("split/matmul")).device, "cpu:1");
}

TEST_F(Fusion, KeepsNodesThatControlDependenciesName) {
  graph_.Add(std::make_shared<Exp>(), {loss_}, "late", {*graph_.Find("matmul1")});
  EXPECT_EQ(Count(FuseDense(graph_, std::vector{loss_}).graph, "dense"), 2u);
}

}  // namespace
}  // namespace leat::ops
