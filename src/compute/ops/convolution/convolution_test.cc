// Shape rules of convolutions and pools, and their fusions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "compute/engine/plan.h"
#include "compute/graph/graph.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/passes.h"
#include "compute/ops/testing.h"

namespace leat::ops {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(ConvolutionShapes, NameTheSizesThatDoNotFit) {
  const TensorType x = F32({1, 3, 3, 4}), w = F32({6, 4, 5, 5}), small = F32({6, 4, 3, 3});
  EXPECT_EQ(Refusal(Conv2d(), {x, w}), "kernel 5x5 is larger than input 3x3");
  EXPECT_EQ(Refusal(Conv2d({.padding = {1, 0, 0, 1}}), {x, w}),
            "kernel 5x5 is larger than input 3x3 with padding 1,0,0,1");
  EXPECT_EQ(Refusal(Conv2d({.dilations = {1, 2}}), {x, small}),
            "kernel 3x3 dilated to 3x5 is larger than input 3x3");
  EXPECT_EQ(Refusal(Conv2d(), {F32({3, 3, 4}), w}), "x[3, 3, 4]: must be [batch, height, width, channels]");
  EXPECT_EQ(Refusal(Conv2d(), {x, F32({6, 4})}),
            "w[6, 4]: must be [filters, channels per group, kernel height, kernel width]");
  EXPECT_EQ(
      Refusal(Conv2d(), {x, F32({6, 3, 3, 3})}),
      "x[1, 3, 3, 4] and w[6, 3, 3, 3]: each filter must have 4 channels (4 channels / 1 groups), not 3");
  EXPECT_EQ(Refusal(Conv2d({.groups = 4}), {x, F32({6, 1, 3, 3})}),
            "4 channels and 6 filters cannot be divided into 4 groups");
  EXPECT_EQ(Refusal(Conv2d({.groups = 0}), {x, small}), "groups 0: must be at least 1");
  EXPECT_EQ(Refusal(Conv2dBias(), {x, small, F32({4})}), "bias [4] must be [6]");
  EXPECT_EQ(Refusal(Conv2dGradInput({}, {5, 5}), {F32({1, 4, 3, 6}), small}),
            "y[1, 4, 3, 6]: must be 3x3 for input 5x5");
  EXPECT_EQ(Refusal(Conv2dGradInput({}, {5, 5}), {F32({1, 3, 3, 4}), small}),
            "y[1, 3, 3, 4] and w[6, 4, 3, 3]: 4 channels do not match 6 filters");
  EXPECT_EQ(Refusal(Conv2dGradWeights({}, {3, 3}), {x, F32({2, 1, 1, 6})}),
            "x[1, 3, 3, 4] and y[2, 1, 1, 6]: batches of 1 and 2 differ");
  EXPECT_EQ(Refusal(Conv2dGradWeights({}, {2, 3}), {x, F32({1, 1, 1, 6})}),
            "y[1, 1, 1, 6]: must be 2x1 for input 3x3");
}

TEST(PoolShapes, NameTheSizesThatDoNotFit) {
  const TensorType x = F32({1, 3, 3, 4});
  EXPECT_EQ(Refusal(MaxPool({.kernel = {4, 1}}), {x}), "kernel 4x1 is larger than input 3x3");
  EXPECT_EQ(Refusal(AvgPool({.kernel = {2, 2}, .padding = {0, 0, 0, 2}}, true), {x}),
            "kernel 2x2 with padding=0,0,0,2: the padding must be smaller than the kernel");
  EXPECT_EQ(Refusal(MaxPool({.kernel = {2, 2}, .padding = {1, 0, 1, 0}}), {F32({1, 0, 3, 4})}),
            "x[1, 0, 3, 4]: the image is empty");
  EXPECT_EQ(
      Refusal(MaxPoolGrad({.kernel = {2, 2}}, {3, 3}), {F32({1, 2, 2, 4}), {DType::kI32, {1, 2, 2, 4}}}),
      "index is i32[1, 2, 2, 4]; must be u8[1, 2, 2, 4]");
  EXPECT_EQ(Refusal(MaxPoolGather({.kernel = {2, 2}}), {x, {DType::kU8, {1, 3, 3, 4}}}),
            "index is u8[1, 3, 3, 4]; must be u8[1, 2, 2, 4]");
  EXPECT_EQ(Refusal(AvgPoolGrad({.kernel = {2, 2}}, false, {3, 3}), {x}),
            "y[1, 3, 3, 4]: must be [1, 2, 2, 4] for input 3x3");
}

// Attributes come from files.
TEST(ConvolutionShapes, NothingOverflows) {
  const TensorType x = F32({1, 3, 3, 4}), w = F32({6, 4, 3, 3}), y = F32({1, 1, 1, 6});
  for (const int64_t size : {int64_t{-1}, int64_t{1} << 31, kMax, std::numeric_limits<int64_t>::min()}) {
    const std::string at = std::to_string(size);
    EXPECT_THAT(Refusal(Conv2d({.padding = {0, 0, 0, size}}), {x, w}), ::testing::HasSubstr(at));
    for (const int64_t least : {size, int64_t{0}}) {
      EXPECT_THAT(Refusal(Conv2d({.strides = {least, 1}}), {x, w}), ::testing::HasSubstr("strides"));
      EXPECT_THAT(Refusal(Conv2d({.dilations = {1, least}}), {x, w}), ::testing::HasSubstr("dilations"));
      EXPECT_NE(Refusal(Conv2dGradWeights({}, {least, 3}), {x, y}), "accepted");
      EXPECT_NE(Refusal(Conv2dGradInput({}, {3, least}), {y, w}), "accepted");
      EXPECT_NE(Refusal(Conv2dGradInput({.groups = least}, {3, 3}), {y, w}), "accepted");
      EXPECT_NE(Refusal(MaxPool({.kernel = {least, 2}}), {x}), "accepted");
      EXPECT_NE(Refusal(MaxPoolGrad({.kernel = {least, 2}}, {3, 3}), {y, y}), "accepted");
    }
  }
  const int64_t large = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(Refusal(Conv2d({.dilations = {large, large}}), {x, w}),
              ::testing::HasSubstr("larger than input"));
  EXPECT_THAT(Refusal(Conv2d({.padding = {large, large, large, large}}), {x, w}),
              ::testing::HasSubstr("2^40"));
  EXPECT_THAT(Refusal(Conv2dGradInput({.groups = large}, {3, 3}),
                      {F32({0, 3, 3, 0}), F32({0, int64_t{1} << 30, 1, 1})}),
              ::testing::HasSubstr("2^40"));
  EXPECT_THAT(
      Refusal(MaxPool({.kernel = {large, large}, .padding = {large - 1, large - 1, large - 1, large - 1}}),
              {x}),
      ::testing::HasSubstr("2^31 elements"));
}

TEST(ConvolutionAttributes, TellOpsApart) {
  EXPECT_EQ(Conv2d().attributes(), "");
  EXPECT_EQ(
      Conv2d({.strides = {2, 1}, .padding = {1, 2, 3, 4}, .dilations = {1, 3}, .groups = 2}).attributes(),
      "strides=2x1 dilations=1x3 padding=1,2,3,4 groups=2");
  EXPECT_EQ(Conv2dBias({.groups = 2}, Activation::kRelu).attributes(), "groups=2 activation=relu");
  EXPECT_EQ(Conv2dGradInput({}, {5, 6}).attributes(), "input=5x6");
  EXPECT_EQ(Conv2dGradWeights({.strides = {2, 2}}, {5, 6}).attributes(), "strides=2x2 kernel=5x6");
  EXPECT_EQ(MaxPoolGrad({.kernel = {2, 3}}, {5, 6}).attributes(), "kernel=2x3 input=5x6");
  EXPECT_EQ(AvgPool({.kernel = {2, 3}}, true).attributes(), "kernel=2x3 count_include_pad=true");
}

size_t CountOfKind(const Graph& graph, std::string_view kind) {
  return static_cast<size_t>(
      std::ranges::count_if(graph.nodes(), [&](const Node& node) { return node.op->kind() == kind; }));
}

// Two convolutions, each with bias, activation and pool, and the gradients of the variables.
class ConvolutionFusion : public ::testing::TestWithParam<bool> {
 protected:
  ConvolutionFusion() {
    Value h = Feed<Placeholder>("x", {2, 8, 8, 1});
    h = graph_.MakeNamed<Relu>("relu", {Layer(h, 1, 3, "1")});
    h = Pool(h);
    h = graph_.MakeNamed<Tanh>("tanh", {Layer(h, 3, 2, "2")});
    h = Pool(h);
    h = graph_.Make<ReduceMean>({h});
    loss_ = graph_.Make<Square>({h});
    fetches_ = graph::Gradients(graph_, loss_, variables_);
    fetches_.push_back(loss_);
  }
  // With overlapping windows, several may choose the same element.
  Value Pool(Value x) {
    const PoolAttributes disjoint{.kernel = {2, 2}, .strides = {2, 2}},
        overlapping{.kernel = {3, 3}, .strides = {2, 2}, .padding = {1, 1, 1, 1}};
    return graph_.Make<MaxPool>({x}, GetParam() ? overlapping : disjoint);
  }
  template <class F>
  Value Feed(std::string_view name, Shape shape) {
    const Value v = graph_.MakeNamed<F>(name, {}, TensorType{DType::kF32, shape});
    feeds_.emplace_back(v, DrawSample({graph_.type(v), -1, 1, SampleInput::Draw::kUniform}, feeds_.size()));
    if (std::is_same_v<F, Variable>) variables_.push_back(v);
    return v;
  }
  Value Layer(Value x, int64_t in, int64_t out, const std::string& name) {
    const Value w = Feed<Variable>("w" + name, {out, in, 3, 3}), b = Feed<Variable>("b" + name, {out});
    const Conv2dAttributes same{.padding = {1, 1, 1, 1}};
    return graph_.MakeNamed<BiasAdd>("bias" + name,
                                     {graph_.MakeNamed<Conv2d>("conv" + name, {x, w}, same), b});
  }
  std::vector<std::vector<float>> Run(std::vector<graph::Pass> passes) {
    auto plan = engine::Plan::Compile(graph_, fetches_,
                                      {.tables = {&reference::Kernels()}, .passes = std::move(passes)});
    for (const auto& [value, tensor] : feeds_) plan->Bind(value, tensor.raw());
    plan->Run();
    plan_ = plan->ToString();
    std::vector<std::vector<float>> results;
    for (Value v : fetches_) {
      const auto elements = plan->At(v).as<float>();
      results.emplace_back(elements.begin(), elements.end());
    }
    return results;
  }

  Graph graph_;
  std::vector<std::pair<Value, Tensor>> feeds_;
  std::vector<Value> variables_, fetches_;
  Value loss_;
  std::string plan_;
};

TEST_P(ConvolutionFusion, LeavesTheSameGradients) {
  const auto plain = Run({}), fast = Run(StandardPasses());
  for (size_t i = 0; i < fetches_.size(); ++i) {
    EXPECT_THAT(fast[i], ::testing::Pointwise(::testing::FloatNear(1e-6f), plain[i]))
        << graph_.node(fetches_[i]).name;
  }
}

TEST_P(ConvolutionFusion, MakesOneNodeOfEachLayerAndOneOfItsGradients) {
  Run(StandardPasses());
  EXPECT_THAT(plan_, ::testing::HasSubstr("relu = reference conv2d_bias padding=1,1,1,1 activation=relu"));
  EXPECT_THAT(plan_, ::testing::HasSubstr("tanh = reference conv2d_bias padding=1,1,1,1 activation=tanh"));
  for (const char* gone : {"conv2d ", "bias_add", "sum_to", "conv2d_grad_weights padding"}) {
    EXPECT_THAT(plan_, ::testing::Not(::testing::HasSubstr(gone)));
  }
  // The gradient with respect to the features is not computed.
  const auto first = plan_.find("reference conv2d_grad_input");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(plan_.find("reference conv2d_grad_input", first + 1), std::string::npos);
}

TEST_P(ConvolutionFusion, TakesTheGradientOfAnActivationWhereItIsSmall) {
  Run(StandardPasses());
  EXPECT_THAT(plan_, testing::ContainsRegex("relu_grad = reference relu_grad : f32\\[2, 4, 4, 3\\]"));
  EXPECT_THAT(plan_, testing::ContainsRegex("tanh_grad = reference tanh_grad : f32\\[2, 2, 2, 2\\]"));
}

TEST_P(ConvolutionFusion, KeepsWhatSomebodyElseReads) {
  // The unpooled gradient before the activation, and the convolution before its bias.
  for (const Node& node : graph_.nodes()) {
    if (node.op->kind() == "max_pool_grad" || node.name == "conv1") fetches_.push_back({node.index, 0});
  }
  const graph::Rewrite fused = ActivationGradBeforeUnpooling(graph_, fetches_);
  EXPECT_THAT(fused.graph.ToString(),
              testing::ContainsRegex("relu_grad : f32\\[2, 8, 8, 3\\]|relu_grad\\(relu"));
  EXPECT_EQ(CountOfKind(FuseConvolution(graph_, fetches_).graph, "conv2d_bias"), 1u);
  const auto plain = Run({}), fast = Run(StandardPasses());
  for (size_t i = 0; i < fetches_.size(); ++i) {
    EXPECT_THAT(fast[i], ::testing::Pointwise(::testing::FloatNear(1e-6f), plain[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, ConvolutionFusion, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Overlapping" : "Disjoint"; });

}  // namespace
}  // namespace leat::ops
