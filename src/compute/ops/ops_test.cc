// Shape rules: the error messages of each op.
#include "compute/ops/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compute/ops/testing.h"

namespace leat::ops {
namespace {

TEST(ShapeRules, NameTheSizesThatDoNotFit) {
  const TensorType m = F32({2, 3});
  EXPECT_EQ(Refusal(MatMul(), {F32({128, 30}), F32({64, 32})}),
            "a[128, 30] x b[64, 32]: inner sizes 30 and 64 differ");
  EXPECT_EQ(Refusal(MatMul(true, false), {F32({128, 30}), F32({64, 32})}),
            "a[128, 30]ᵀ x b[64, 32]: inner sizes 128 and 64 differ");
  EXPECT_EQ(Refusal(MatMul(), {F32({3}), m}), "a[3] x b[2, 3]: both must be matrices");
  EXPECT_EQ(Refusal(MatMul(), {m}), "takes 2 inputs, not 1");
  EXPECT_EQ(Refusal(BiasAdd(), {m, F32({2})}),
            "x[2, 3] + b[2]: the bias must have one axis, as long as the last axis of x");
  EXPECT_EQ(Refusal(BiasAdd(), {F32({}), F32({1})}),
            "x[] + b[1]: the bias must have one axis, as long as the last axis of x");
  EXPECT_EQ(Refusal(Dense(false, false, Activation::kRelu), {F32({4, 2}), m, F32({2})}),
            "bias [2] must be [3]");
  EXPECT_EQ(Refusal(Add(), {m, F32({4, 3})}), "a[2, 3] and b[4, 3] do not broadcast: sizes 2 and 4 differ");
  EXPECT_EQ(Refusal(Relu(), {{DType::kI32, {2}}}), "input 0 is i32[2]; must be f32");
  EXPECT_EQ(Refusal(Relu(), {m, m}), "takes 1 input, not 2");
  EXPECT_EQ(Refusal(ReluGrad(), {m, F32({3, 2})}), "shapes [2, 3] and [3, 2] differ");
  EXPECT_EQ(Refusal(BroadcastTo({2, 4}), {m}), "[2, 3] does not broadcast to [2, 4]");
  EXPECT_EQ(Refusal(BroadcastTo({3}), {m}), "[2, 3] does not broadcast to [3]");
  EXPECT_EQ(Refusal(SumTo({2}), {m}), "[2] does not broadcast to [2, 3]");
  EXPECT_EQ(Refusal(ReduceSum({2}), {m}), "axis 2 is out of range for rank 2");
  EXPECT_EQ(Refusal(ReduceSum({-1, 1}), {m}), "axis 1 is listed twice");
  EXPECT_EQ(Refusal(ReduceMean(), {F32({0, 3})}), "the mean of no elements: input is [0, 3]");
  EXPECT_EQ(Refusal(Reshape({4}), {m}), "[2, 3] has 6 elements, [4] has 4");
  EXPECT_EQ(Refusal(Transpose(), {F32({2})}), "permutation=1,0 does not name each axis of [2] once");
  EXPECT_EQ(Refusal(Transpose({0, 0}), {m}), "permutation=0,0 does not name each axis of [2, 3] once");
  EXPECT_EQ(Refusal(Transpose({-1, 0}), {m}), "permutation=-1,0 does not name each axis of [2, 3] once");
  EXPECT_EQ(Refusal(Concat(1), {m, F32({3, 3})}), "[2, 3] and [3, 3] differ along an axis other than 1");
  EXPECT_EQ(Refusal(Concat(2), {m}), "axis 2 is out of range for rank 2");
  EXPECT_EQ(Refusal(Concat(0), {}), "takes at least one input");
  EXPECT_EQ(Refusal(Slice({0, 1}, {2, 3}), {m}), "begin=0,1 size=2,3 is out of range for [2, 3]");
  EXPECT_EQ(Refusal(Slice({0, INT64_MAX}, {2, INT64_MAX}), {m}),
            "begin=0,9223372036854775807 size=2,9223372036854775807 is out of range for [2, 3]");
  EXPECT_EQ(Refusal(Pad({0, INT64_MAX}, {0, 1}), {m}),
            "before=0,9223372036854775807 after=0,1 does not fit [2, 3]");
  EXPECT_EQ(Refusal(Cast(), {m}), "input is f32 already");
  EXPECT_EQ(Refusal(Softmax(), {F32({3, 0})}), "input [3, 0] has no elements along its last axis");
  EXPECT_EQ(Refusal(SoftmaxCrossEntropy(), {m, F32({3})}),
            "logits[2, 3] and labels[3]: must be [batch, classes] and [batch]");
  EXPECT_EQ(Refusal(AddN(), {m, F32({3, 2})}), "shapes [2, 3] and [3, 2] differ");
}

TEST(ShapeRules, RefuseProductsThatAreTooLarge) {
  const int64_t n = int64_t{1} << 25;
  EXPECT_THAT(Refusal(MatMul(), {F32({n, 1}), F32({1, n})}), ::testing::HasSubstr("more than 2^40 elements"));
  EXPECT_THAT(Refusal(Add(), {F32({n, 1}), F32({1, n})}), ::testing::HasSubstr("more than 2^40 elements"));
}

TEST(ShapeRules, NameNodeAndLine) {
  Graph graph;
  const Value a = graph.MakeNamed<Placeholder>("a", {}, F32({128, 30}));
  const Value b = graph.MakeNamed<Variable>("b", {}, F32({64, 32}));
  Graph::Scope scope(graph, "dense1", "job.yaml:14");
  EXPECT_THAT(
      [&] {
        graph.Make<MatMul>({a, b});
      },
      ::testing::ThrowsMessage<std::invalid_argument>(
          "[matmul] a[128, 30] x b[64, 32]: inner sizes 30 and 64 "
          "differ, node \"dense1/matmul\", job.yaml:14"));
}

TEST(Broadcasting, StretchesLikeNumPy) {
  EXPECT_EQ(BroadcastShape({3, 1}, {2, 1, 5}), (Shape{2, 3, 5}));
  EXPECT_EQ(BroadcastShape({}, {4}), (Shape{4}));
  EXPECT_EQ(BroadcastShape({0, 1}, {1, 3}), (Shape{0, 3}));
  EXPECT_THAT(BroadcastStrides({3, 1}, {2, 3, 5}), ::testing::ElementsAre(0, 1, 0));
  EXPECT_THAT(BroadcastStrides({2, 3}, {2, 3}), ::testing::ElementsAre(3, 1));
}

TEST(Classes, AreReadFromLabelsWithinBoundsOnly) {
  EXPECT_EQ(ClassOf(0, 3), 0);
  EXPECT_EQ(ClassOf(2, 3), 2);
  EXPECT_EQ(ClassOf(1.9f, 3), 1);
  for (float bad : {-1.0f, -0.5f, 3.0f, 1e30f, -1e30f, std::nanf(""), INFINITY, -INFINITY}) {
    EXPECT_EQ(ClassOf(bad, 3), -1) << bad;
  }
}

TEST(Samples, AreAsAskedFor) {
  const Tensor kinked = DrawSample({F32({1000}), -2, 2, SampleInput::Draw::kAwayFromZero}, 1);
  for (float x : kinked.as<float>()) EXPECT_TRUE(std::abs(x) >= 0.1f && std::abs(x) <= 2) << x;
  const Tensor whole = DrawSample({{DType::kU8, {1000}}, 0, 255, SampleInput::Draw::kInteger}, 1);
  EXPECT_EQ(*std::ranges::max_element(whole.as<uint8_t>()), 255);
}

// Ops with different attributes must have different text forms.
TEST(Attributes, TellOpsApart) {
  EXPECT_EQ(MatMul(true, true).attributes(), "transpose_a=true transpose_b=true");
  EXPECT_EQ(Dense(false, true, Activation::kRelu).attributes(), "transpose_b=true activation=relu");
  EXPECT_EQ(Scale(0.1f).attributes(), "factor=0.1");
  EXPECT_EQ(Scale(-2, 1).attributes(), "factor=-2 offset=1");
  EXPECT_EQ(ReduceSum({0, -1}, true).attributes(), "axes=0,-1 keep_dims=true");
  EXPECT_EQ(ReduceSum().attributes(), "axes=all");
}

}  // namespace
}  // namespace leat::ops
