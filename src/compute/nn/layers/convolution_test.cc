// Convolution and pooling layers: shapes, gradients, rejected settings, and memory and work of a LeNet step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <stdexcept>

#include "base/rng.h"
#include "compute/engine/plan.h"
#include "compute/kernels/cpu/table.h"
#include "compute/kernels/reference/reference.h"
#include "compute/nn/model.h"
#include "compute/ops/passes.h"

namespace leat::nn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Model MakeConvolution(const std::string& layers, const std::string& inputs = "[6, 7, 2]") {
  return Model::FromConfig(
      Config::Parse("inputs: " + inputs + "\nlayers:\n" + layers + "loss: negative_sum\n", "job.yaml"), {});
}

std::string ConvolutionMessage(const std::string& layers, const std::string& inputs = "[6, 7, 2]") {
  try {
    MakeConvolution(layers, inputs);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// "6x7x2-4x3x8 negative_sum, ..." without the parts that are equal for all.
std::string Sizes(const std::string& layers) {
  const std::string text = MakeConvolution(layers).ToString();
  return text.substr(0, text.find(' '));
}

TEST(ConvolutionLayers, MakeOfARowWhatWindowsFitIntoIt) {
  EXPECT_EQ(Sizes("  - conv2d: {filters: 8, kernel: 3}\n"), "6x7x2-4x5x8");
  EXPECT_EQ(Sizes("  - conv2d: {filters: 8, kernel: 3, padding: same}\n"), "6x7x2-6x7x8");
  EXPECT_EQ(Sizes("  - conv2d: {filters: 8, kernel: 2, padding: same, strides: 2}\n"), "6x7x2-3x4x8");
  EXPECT_EQ(Sizes("  - conv2d: {filters: 8, kernel: [1, 3], padding: [0, 1], strides: [3, 1]}\n"),
            "6x7x2-2x7x8");
  EXPECT_EQ(Sizes("  - conv2d: {filters: 8, kernel: 3, padding: [1, 0, 0, 2], dilation: 2, groups: 2}\n"),
            "6x7x2-3x5x8");
  EXPECT_EQ(Sizes("  - conv2d_transpose: {filters: 8, kernel: 3, strides: 2}\n"), "6x7x2-13x15x8");
  EXPECT_EQ(Sizes("  - conv2d_transpose: {filters: 8, kernel: 3, strides: 2, padding: same}\n"),
            "6x7x2-12x14x8");
  EXPECT_EQ(Sizes("  - conv2d_transpose: {filters: 8, kernel: 2, strides: 3, padding: same}\n"),
            "6x7x2-18x21x8");
  EXPECT_EQ(
      Sizes(
          "  - conv2d_transpose: {filters: 8, kernel: 3, strides: 2, padding: 1, output_padding: [1, 0]}\n"),
      "6x7x2-12x13x8");
  EXPECT_EQ(Sizes("  - max_pool\n"), "6x7x2-3x3x2");
  EXPECT_EQ(Sizes("  - avg_pool: {size: 3, strides: 2, padding: same}\n"), "6x7x2-3x4x2");
  EXPECT_EQ(Sizes("  - global_max_pool\n"), "6x7x2-2");
  EXPECT_EQ(Sizes("  - global_avg_pool\n"), "6x7x2-2");
}

TEST(ConvolutionLayers, StartFromWhatAnOutputIsTheSumOf) {
  using Kind = optim::InitKind;
  const auto conv =
      MakeConvolution("  - conv2d: {filters: 8, kernel: [3, 5], groups: 2, activation: relu}\n").variables();
  ASSERT_EQ(conv.size(), 2u);
  EXPECT_EQ(conv[0].name + conv[0].shape.ToString(), "conv2d1/weight[8, 1, 3, 5]");
  EXPECT_EQ(conv[0].init, (optim::InitSpec{Kind::kHeNormal, 0, 15, 120}));
  EXPECT_EQ(conv[1].name + conv[1].shape.ToString(), "conv2d1/bias[8]");
  const auto transpose =
      MakeConvolution("  - conv2d_transpose: {filters: 8, kernel: 4, strides: 2, use_bias: false}\n")
          .variables();
  ASSERT_EQ(transpose.size(), 1u);
  EXPECT_EQ(transpose[0].name + transpose[0].shape.ToString(), "conv2d_transpose1/weight[2, 8, 4, 4]");
  EXPECT_EQ(transpose[0].init, (optim::InitSpec{Kind::kGlorotUniform, 0, 8, 128}));
}

TEST(ConvolutionLayers, NameWhatTheyRefuse) {
  const std::pair<std::string, std::string> cases[] = {
      {"  - conv2d: {filter: 8, kernel: 3}\n",
       "job.yaml:3: unknown key 'filter' in conv2d; did you mean 'filters'?"},
      {"  - conv2d: {kernel: 3}\n", "job.yaml:3: conv2d has no 'filters'"},
      {"  - conv2d: {filters: 8}\n", "job.yaml:3: conv2d has no 'kernel'"},
      {"  - conv2d: {filters: 0, kernel: 3}\n", "job.yaml:3: filters is 0; must be between 1 and 1048576"},
      {"  - conv2d: {filters: 8, kernel: 0}\n", "job.yaml:3: kernel is 0; must be between 1 and 1048576"},
      {"  - conv2d: {filters: 8, kernel: [3, 3, 3]}\n",
       "job.yaml:3: kernel must be a number or [height, width]"},
      {"  - conv2d: {filters: 8, kernel: 7}\n",
       "job.yaml:3: layer conv2d1: kernel 7x7 is larger than input 6x7"},
      {"  - conv2d: {filters: 8, kernel: 3, padding: sam}\n",
       "job.yaml:3: unknown padding 'sam'; did you mean 'same'?"},
      {"  - conv2d: {filters: 8, kernel: 3, padding: -1}\n", "job.yaml:3: padding is -1; must be between 0"},
      {"  - conv2d: {filters: 8, kernel: 3, padding: [1, 1, 1]}\n",
       "job.yaml:3: padding must be same, valid, a number"},
      {"  - conv2d: {filters: 9, kernel: 3, groups: 2}\n",
       "job.yaml:3: layer conv2d1: 2 channels and 9 filters cannot be divided into 2 groups"},
      {"  - conv2d: {filters: 1048576, kernel: [1048576, 1048576], padding: same}\n",
       "job.yaml:3: layer conv2d1: shape [1048576, 2, 1048576, 1048576] has more than 2^40 elements"},
      {"  - conv2d: {filters: 1048576, kernel: 400, padding: same}\n", "[1048576, 2, 400, 400] are too many"},
      {"  - flatten\n  - conv2d: {filters: 8, kernel: 3}\n",
       "job.yaml:4: layer conv2d1: the row shape is [84]; must be an image [height, width, channels]"},
      {"  - conv2d_transpose: {filters: 8, kernel: 3, strides: 2, output_padding: 2}\n",
       "job.yaml:3: output_padding is 2x2; must be smaller than strides 2x2"},
      {"  - conv2d_transpose: {filters: 8, kernel: 3, padding: 9}\n",
       "job.yaml:3: layer conv2d_transpose1: padding removes the whole result"},
      {"  - max_pool: {size: 8}\n", "job.yaml:3: layer max_pool1: kernel 8x8 is larger than input 6x7"},
      {"  - avg_pool: {size: 2, padding: 2}\n", "the padding must be smaller than the kernel"},
      {"  - max_pool: {kernel: 2}\n", "job.yaml:3: unknown key 'kernel' in max_pool"},
      {"  - global_avg_pool: {size: 2}\n", "job.yaml:3: unknown key 'size' in global_avg_pool"},
  };
  for (const auto& [layers, message] : cases)
    EXPECT_THAT(ConvolutionMessage(layers), HasSubstr(message)) << layers;
}

// A model with its parameters and one batch.
class ImageRunner {
 public:
  ImageRunner(const Model& model, uint32_t batch, std::vector<const graph::KernelTable*> tables)
      : step_(model.Build(batch)) {
    std::vector<graph::Value> fetches = {step_.loss};
    fetches.insert(fetches.end(), step_.gradients.begin(), step_.gradients.end());
    engine::PlanOptions options;
    options.tables = std::move(tables);
    options.passes = ops::StandardPasses();
    plan_ = engine::Plan::Compile(step_.graph, fetches, options);
    Rng rng(1);
    const auto bind = [&](graph::Value v) -> std::vector<float>& {
      memory_.emplace_back(static_cast<size_t>(step_.graph.shape(v).elements()), 1.0f);
      plan_->Bind(v, memory_.back().data());
      return memory_.back();
    };
    for (auto& x : bind(step_.features)) x = static_cast<float>(rng.Normal());
    bind(step_.labels);
    bind(step_.weights);
    for (size_t v = 0; v < step_.variables.size(); ++v) {
      parameters.push_back(&bind(step_.variables[v]));
      for (auto& x : *parameters.back()) x = static_cast<float>(0.3 * rng.Normal());
    }
  }
  engine::Plan& plan() { return *plan_; }
  float loss() {
    plan_->Run();
    return plan_->At(step_.loss).as<float>()[0];
  }
  std::vector<float> gradient(size_t v) const {
    const auto span = plan_->At(step_.gradients[v]).as<float>();
    return {span.begin(), span.end()};
  }

  std::vector<std::vector<float>*> parameters;

 private:
  StepGraph step_;
  std::unique_ptr<engine::Plan> plan_;
  std::deque<std::vector<float>> memory_;
};

TEST(ConvolutionLayers, GradientsAreTheSlopesOfTheLoss) {
  const std::string models[] = {
      "  - conv2d: {filters: 4, kernel: 3, padding: same, strides: 2, activation: tanh}\n"
      "  - conv2d: {filters: 4, kernel: 2, groups: 2, dilation: 2, activation: sigmoid}\n"
      "  - global_avg_pool\n",
      "  - conv2d_transpose: {filters: 2, kernel: 3, strides: 2, padding: same, activation: tanh}\n"
      "  - avg_pool: {size: 3, strides: 2, padding: same}\n"
      "  - conv2d: {filters: 2, kernel: 2, activation: tanh}\n",
      "  - conv2d: {filters: 3, kernel: 3, activation: tanh}\n"
      "  - max_pool: {size: 2, strides: 1}\n"
      "  - conv2d: {filters: 2, kernel: 2, use_bias: false, activation: sigmoid}\n"
      "  - global_max_pool\n"
      "  - dense: {units: 2, activation: tanh}\n",
  };
  for (const auto& layers : models) {
    const Model model = MakeConvolution(layers);
    ImageRunner run(model, 2, {&reference::Kernels()}),
        fast(model, 2, {&cpu::Table(), &reference::Kernels()});
    const float loss = run.loss();
    EXPECT_NEAR(fast.loss(), loss, 1e-4 * std::abs(loss)) << layers;
    for (size_t v = 0; v < run.parameters.size(); ++v) {
      run.loss();
      const auto gradient = run.gradient(v);
      EXPECT_THAT(fast.gradient(v), ::testing::Pointwise(::testing::FloatNear(1e-4f), gradient))
          << layers << v;
      for (size_t i = 0; i < gradient.size(); ++i) {
        constexpr float kStep = 5e-3f;
        float& at = (*run.parameters[v])[i];
        const float before = at;
        at = before + kStep;
        const float above = run.loss();
        at = before - kStep;
        const float slope = (above - run.loss()) / (2 * kStep);
        at = before;
        ASSERT_NEAR(gradient[i], slope, 5e-3 + 5e-3 * std::abs(slope)) << layers << v << " " << i;
      }
    }
  }
}

const char* const kLeNet =
    "  - conv2d: {filters: 32, kernel: 5, padding: same, activation: relu}\n"
    "  - max_pool\n"
    "  - conv2d: {filters: 64, kernel: 5, padding: same, activation: relu}\n"
    "  - max_pool\n"
    "  - flatten\n"
    "  - dense: {units: 512, activation: relu}\n"
    "  - dense: {units: 10}\n";

// Activations dominate the memory of a convolutional network, so none may be kept longer than it is used.
TEST(LeNet, TakesLittleMoreMemoryThanIsAliveAtOnce) {
  const Model model = MakeConvolution(kLeNet, "[28, 28, 1]");
  ImageRunner run(model, 64, {&cpu::Table(), &reference::Kernels()});
  EXPECT_LE(static_cast<double>(run.plan().arena_bytes()),
            1.2 * static_cast<double>(run.plan().largest_live_bytes()));
  // The largest tensor, 64 x 28 x 28 x 32, is alive while its pool is computed, forward and backward.
  constexpr size_t kLargest = size_t{64} * 28 * 28 * 32 * sizeof(float);
  EXPECT_LT(run.plan().arena_bytes(), kLargest * 3 / 2);
}

TEST(LeNet, ComputesNothingThatItDoesNotNeed) {
  const Model model = MakeConvolution(kLeNet, "[28, 28, 1]");
  ImageRunner run(model, 64, {&cpu::Table(), &reference::Kernels()});
  const std::string plan = run.plan().ToString();
  // No gradient with respect to the features, and no separate kernels for bias gradients.
  const auto first = plan.find(" conv2d_grad_input ");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(plan.find(" conv2d_grad_input ", first + 1), std::string::npos) << plan;
  EXPECT_THAT(plan, Not(HasSubstr("reference conv")));
  EXPECT_THAT(plan, Not(HasSubstr("reference max_pool")));
  EXPECT_THAT(plan, HasSubstr("cpu conv2d_grad_weights_bias"));
  EXPECT_THAT(plan, Not(HasSubstr("relu_grad : f32[64, 28, 28, 32]")));
}

}  // namespace
}  // namespace leat::nn
