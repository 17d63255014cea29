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

size_t CountNodes(const Graph& graph, std::string_view kind) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->kind() == kind; }));
}

// A perceptron 40-48-32 that learns by gradient descent which of 32 directions its input points to.
class Perceptron {
 public:
  Perceptron() {
    x_ = Feed<Placeholder>({64, 40}, 1);
    labels_ = Feed<Placeholder>({64}, 0);
    const Value w1 = Feed<Variable>({40, 48}, 0.15f), b1 = Feed<Variable>({48}, 0.01f);
    const Value w2 = Feed<Variable>({48, 32}, 0.15f), b2 = Feed<Variable>({32}, 0.01f);
    const Value h = graph_.Make<Relu>({graph_.Make<BiasAdd>({graph_.Make<MatMul>({x_, w1}), b1})});
    const Value y = graph_.Make<BiasAdd>({graph_.Make<MatMul>({h, w2}), b2});
    loss_ = graph_.Make<ReduceMean>({graph_.Make<SoftmaxCrossEntropy>({y, labels_})});
    variables_ = {w1, b1, w2, b2};
    fetches_ = graph::Gradients(graph_, loss_, variables_);
    fetches_.push_back(loss_);
    for (size_t row = 0; row < 64; ++row) feeds_[1].second.as<float>()[row] = static_cast<float>(row % 32);
  }

  // The loss after a number of steps.
  float Train(int steps, std::vector<graph::Pass> passes) {
    auto plan = engine::Plan::Compile(graph_, fetches_,
                                      {.tables = {&reference::Kernels()}, .passes = std::move(passes)});
    std::vector<Tensor> values;
    for (const auto& [value, tensor] : feeds_) {
      values.push_back(Tensor::Of<float>(tensor.shape(), tensor.as<const float>()));
      plan->Bind(value, values.back().raw());
    }
    for (int step = 0; step < steps; ++step) {
      plan->Run();
      for (size_t v = 0; v < variables_.size(); ++v) {
        const auto gradient = plan->At(fetches_[v]).as<float>();
        const auto w = values[v + 2].as<float>();
        for (size_t i = 0; i < w.size(); ++i) w[i] -= 0.2f * gradient[i];
      }
    }
    plan->Run();
    return plan->At(loss_).as<float>()[0];
  }

  Graph graph_;
  std::vector<Value> variables_, fetches_;
  Value x_, labels_, loss_;

 private:
  template <class F>
  Value Feed(Shape shape, float size) {
    const Value v = graph_.Make<F>({}, TensorType{DType::kF32, shape});
    feeds_.emplace_back(
        v, DrawSample({graph_.type(v), -size, size, SampleInput::Draw::kUniform}, feeds_.size()));
    return v;
  }
  std::vector<std::pair<Value, Tensor>> feeds_;
};

TEST(UseBf16, RoundsEachOperandOnceAndNothingElse) {
  Perceptron net;
  graph::Rewrite fused = FuseDense(net.graph_, net.fetches_);
  std::vector<Value> keep;
  for (Value v : net.fetches_) keep.push_back(fused.At(v));
  const graph::Rewrite narrow = UseBf16()(fused.graph, keep);
  // Forward x, w1, h, w2; backward both layers' gradients. x, h and w2 are used twice.
  EXPECT_EQ(CountNodes(narrow.graph, "cast"), 6u) << narrow.graph.ToString();
  for (const Node& node : narrow.graph.nodes()) {
    const bool product = node.op->kind() == "dense" || node.op->kind() == "matmul";
    if (product) {
      EXPECT_EQ(narrow.graph.type(node.inputs[0]).dtype, DType::kBf16) << node.name;
    }
    if (node.op->kind() != "cast") {
      EXPECT_EQ(node.outputs[0].dtype, DType::kF32) << node.name;
    }
  }
}

TEST(UseBf16, LeavesSmallProducts) {
  Perceptron net;
  EXPECT_EQ(CountNodes(UseBf16(49)(net.graph_, net.fetches_).graph, "cast"), 0u);
}

TEST(UseBf16, LearnsAsWell) {
  Perceptron net;
  const float exact = net.Train(150, {FuseDense});
  const float rounded = net.Train(150, {FuseDense, UseBf16()});
  EXPECT_LT(exact, 0.5f);
  EXPECT_NE(rounded, exact);
  EXPECT_NEAR(rounded, exact, 0.05f * exact);
}

}  // namespace
}  // namespace leat::ops
