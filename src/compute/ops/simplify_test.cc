#include "compute/ops/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compute/engine/plan.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/testing.h"

namespace leat::ops {
namespace {

using Axes = std::vector<int>;
using Sizes = std::vector<int64_t>;

class Simplified : public ::testing::Test {
 protected:
  Value Feed(Shape shape) {
    const Value v = graph_.Make<Placeholder>({}, TensorType{DType::kF32, shape});
    feeds_.emplace_back(v, DrawSample({graph_.type(v)}, feeds_.size() + 1));
    return v;
  }
  Value Fill(Shape shape, float value) { return graph_.Make<Constant>({}, shape, value); }

  std::vector<float> Run(Value v, std::vector<graph::Pass> passes) {
    auto plan = engine::Plan::Compile(graph_, std::vector{v},
                                      {.tables = {&reference::Kernels()}, .passes = std::move(passes)});
    for (const auto& [value, tensor] : feeds_) plan->Bind(value, tensor.raw());
    plan->Run();
    const auto elements = plan->At(v).as<float>();
    return {elements.begin(), elements.end()};
  }
  // The ops that v depends on after the pass, in order, without leaves. Also checks that its value is
  // unchanged.
  std::string Left(Value v) {
    EXPECT_EQ(Run(v, {}), Run(v, {Simplify}));
    const std::vector keep = {v};
    const graph::Rewrite simple = Simplify(graph_, keep);
    const std::vector kept = {simple.At(v)};
    const graph::Rewrite pruned = graph::Prune(simple.graph, kept);
    std::string text;
    for (const Node& node : pruned.graph.nodes()) {
      if (graph::IsFeed(*node.op) || graph::ConstantValue(*node.op) != nullptr) continue;
      text += (text.empty() ? "" : " ") + std::string(node.op->kind());
      if (!node.op->attributes().empty()) text += "(" + node.op->attributes() + ")";
    }
    return text;
  }

  Graph graph_;
  std::vector<std::pair<Value, Tensor>> feeds_;
};

TEST_F(Simplified, LeavesOutWhatChangesNothing) {
  const Value x = Feed({2, 3});
  EXPECT_EQ(Left(graph_.Make<Mul>({x, Fill({}, 1)})), "");
  EXPECT_EQ(Left(graph_.Make<Mul>({Fill({2, 3}, 1), x})), "");
  EXPECT_EQ(Left(graph_.Make<Mul>({x, graph_.Make<BroadcastTo>({Fill({}, 1)}, Shape{2, 3})})), "");
  EXPECT_EQ(Left(graph_.Make<Div>({x, Fill({3}, 1)})), "");
  EXPECT_EQ(Left(graph_.Make<Sub>({x, Fill({}, 0)})), "");
  EXPECT_EQ(Left(graph_.Make<Scale>({x}, 1.0f)), "");
  EXPECT_EQ(Left(graph_.Make<AddN>({x})), "");
  EXPECT_EQ(Left(graph_.Make<Concat>({x}, 0)), "");
  EXPECT_EQ(Left(graph_.Make<Slice>({x}, Sizes{0, 0}, Sizes{2, 3})), "");
  EXPECT_EQ(Left(graph_.Make<Pad>({x}, Sizes{0, 0}, Sizes{0, 0})), "");
  EXPECT_EQ(Left(graph_.Make<Transpose>({x}, Axes{0, 1})), "");
  EXPECT_EQ(Left(graph_.Make<Reshape>({x}, Shape{2, 3})), "");
  EXPECT_EQ(Left(graph_.Make<Neg>({graph_.Make<Neg>({x})})), "");
}

TEST_F(Simplified, KeepsWhatChangesSomething) {
  const Value x = Feed({2, 3});
  EXPECT_EQ(Left(graph_.Make<Mul>({x, Fill({}, 2)})), "mul");
  EXPECT_EQ(Left(graph_.Make<Mul>({x, Fill({4, 1, 1}, 1)})), "mul");
  EXPECT_EQ(Left(graph_.Make<Div>({Fill({}, 1), x})), "div");
  EXPECT_EQ(Left(graph_.Make<Sub>({x, Fill({}, -0.0f)})), "sub");
  EXPECT_EQ(Left(graph_.Make<Scale>({x}, 1.0f, 1.0f)), "scale(factor=1 offset=1)");
  EXPECT_EQ(Left(graph_.Make<Slice>({x}, Sizes{1, 0}, Sizes{2, 3}, Sizes{-1, 1})),
            "slice(begin=1,0 size=2,3 step=-1,1)");
}

TEST_F(Simplified, MakesOneOfReshapesAndTransposes) {
  const Value x = Feed({2, 3, 4});
  const Value flat = graph_.Make<Reshape>({x}, Shape{24});
  EXPECT_EQ(Left(graph_.Make<Reshape>({flat}, Shape{4, 6})), "reshape(shape=[4, 6])");
  EXPECT_EQ(Left(graph_.Make<Reshape>({flat}, Shape{2, 3, 4})), "");
  const Value turned = graph_.Make<Transpose>({x}, Axes{2, 0, 1});
  EXPECT_EQ(Left(graph_.Make<Transpose>({turned}, Axes{1, 2, 0})), "");
  EXPECT_EQ(Left(graph_.Make<Transpose>({turned}, Axes{2, 0, 1})), "transpose(permutation=1,2,0)");
  const Value image = Feed({2, 1, 5, 3});
  EXPECT_EQ(Left(graph_.Make<Transpose>({image}, Axes{0, 2, 3, 1})), "reshape(shape=[2, 5, 3, 1])");
  EXPECT_EQ(Left(graph_.Make<Transpose>({image}, Axes{0, 3, 2, 1})), "transpose(permutation=0,3,2,1)");
}

TEST_F(Simplified, KeepsNodesThatControlDependenciesName) {
  const Value x = Feed({2, 3});
  const Value same = graph_.Make<Scale>({x}, 1.0f);
  const Value later = graph_.Add(std::make_shared<Exp>(), {same}, "late", {same.node});
  EXPECT_EQ(Left(later), "scale(factor=1) exp");
}

}  // namespace
}  // namespace leat::ops
