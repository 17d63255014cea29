#include "compute/ops/normalize/normalize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "compute/engine/plan.h"
#include "compute/graph/graph.h"
#include "compute/kernels/reference/reference.h"
#include "compute/ops/ops.h"
#include "compute/ops/testing.h"
#include "compute/optim/moments.h"

namespace leat::ops {
namespace {

using ::testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Tensor> Outputs(std::shared_ptr<const Op> op, std::vector<Tensor> inputs) {
  Graph graph;
  std::vector<Value> leaves;
  for (const Tensor& input : inputs) leaves.push_back(graph.Make<Placeholder>({}, input.type()));
  const Value first = graph.Add(std::move(op), leaves);
  std::vector<Value> fetches;
  for (uint32_t i = 0; i < graph.node(first).outputs.size(); ++i) fetches.push_back({first.node, i});
  const auto plan = engine::Plan::Compile(graph, fetches, {.tables = {&reference::Kernels()}, .passes = {}});
  for (size_t i = 0; i < inputs.size(); ++i) plan->Bind(leaves[i], inputs[i].raw());
  plan->Run();
  std::vector<Tensor> outputs;
  for (const Value fetch : fetches) {
    const auto made = plan->At(fetch).as<const float>();
    outputs.push_back(Tensor::Of<float>(graph.shape(fetch), std::vector<float>(made.begin(), made.end())));
  }
  return outputs;
}

Tensor Floats(Shape shape, const std::vector<float>& values) {
  return Tensor::Of<float>(shape, values);
}
Tensor Columns(const std::vector<int32_t>& columns) {
  return Tensor::Of<int32_t>(Shape{static_cast<int64_t>(columns.size())}, columns);
}
// The words of some moments.
Tensor Words(const std::vector<optim::Moments>& moments) {
  Tensor words(TensorType{DType::kF32, Shape{3, static_cast<int64_t>(moments.size()), 2}});
  for (size_t i = 0; i < moments.size(); ++i) optim::PutMoments(words.as<float>(), i, moments[i]);
  return words;
}
optim::Moments At(const Tensor& words, size_t column) {
  return optim::GetMoments(words.as<const float>(), column);
}

TEST(Moments, AreThoseOfTheRowsThatCount) {
  constexpr size_t kRows = 100, kWidth = 5;
  const std::vector<int32_t> columns{4, 1, 3};
  const std::vector<double> levels{0, 1e6, 0, -3e-5, 7}, spreads{1, 0.25, 1, 1e-6, 1e30};
  Rng rng(1);
  std::vector<float> x(kRows * kWidth), weights(kRows);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(levels[i % kWidth] + spreads[i % kWidth] * rng.Normal());
  }
  for (size_t row = 0; row < kRows; ++row)
    weights[row] = row % 3 == 0 ? 0.0f : 1 + static_cast<float>(row % 2);
  for (float& first : std::span(x).first(kWidth)) first = kNan;  // a row that does not count
  const auto words = Outputs(std::make_shared<Moments>(),
                             {Floats({kRows, kWidth}, x), Floats({kRows}, weights), Columns(columns)})[0];
  for (size_t c = 0; c < columns.size(); ++c) {
    long double sum = 0, squares = 0;
    uint64_t count = 0;
    const auto each = [&](auto use) {
      for (size_t row = 0; row < kRows; ++row) {
        if (weights[row] > 0) use(x[row * kWidth + static_cast<size_t>(columns[c])]);
      }
    };
    each([&](long double value) {
      sum += value;
      ++count;
    });
    const long double mean = sum / static_cast<long double>(count);
    each([&](long double value) { squares += (value - mean) * (value - mean); });
    const optim::Moments found = At(words, c);
    EXPECT_EQ(found.count, count);
    EXPECT_NEAR(found.mean, static_cast<double>(mean),
                1e-14 * static_cast<double>(std::abs(mean)) +
                    1e-12 * static_cast<double>(std::sqrt(squares) / count));
    EXPECT_NEAR(found.m2, static_cast<double>(squares), 1e-12 * static_cast<double>(squares));
  }
}

TEST(Moments, ValuesThatAreNotFiniteAreLeftOut) {
  const auto words = Outputs(std::make_shared<Moments>(),
                             {Floats({4, 2}, {1, kNan, kInfinity, 5, 3, -kInfinity, kNan, kNan}),
                              Floats({4}, {1, 1, 1, 1}), Columns({0, 1})})[0];
  EXPECT_EQ(At(words, 0), (optim::Moments{2, 2, 2}));
  EXPECT_EQ(At(words, 1), (optim::Moments{1, 5, 0}));
}

TEST(Moments, OfPaddingThereAreNone) {
  const auto words =
      Outputs(std::make_shared<Moments>(), {Floats({2, 1}, {1, 2}), Floats({2}, {0, 0}), Columns({0})})[0];
  EXPECT_EQ(At(words, 0), optim::Moments());
}

TEST(Moments, OfEqualValuesHaveNoDeviation) {
  const auto words = Outputs(
      std::make_shared<Moments>(),
      {Floats({7, 1}, std::vector<float>(7, 0.1f)), Floats({7}, std::vector<float>(7, 1)), Columns({0})})[0];
  EXPECT_EQ(At(words, 0), (optim::Moments{7, static_cast<double>(0.1f), 0}));
}

TEST(MomentsScaling, IsTheRunningOneOrThatOfTheFirstBatch) {
  const auto running = Words({{4, 10, 16}, {0, 0, 0}, {1, 3, 0}});
  const auto batch = Words({{2, 1, 1}, {8, -2, 2}, {5, 9, 9}});
  const auto by = Outputs(std::make_shared<MomentsScaling>(Shape{5}), {running, batch, Columns({2, 0, 3})});
  const auto values = [&](size_t output) {
    const auto all = by[output].as<const float>();
    return std::vector<float>(all.begin(), all.end());
  };
  EXPECT_THAT(values(0), ElementsAre(-2, 0, 10, 0, 0));
  EXPECT_THAT(values(1), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(values(2), ElementsAre(2, 1, 0.5f, 0, 1)) << "a single value has no deviation";
}

TEST(MomentsScaling, IsAConstantToGradients) {
  Graph graph;
  const Value x = graph.Make<Placeholder>({}, F32({4, 2})), weights = graph.Make<Placeholder>({}, F32({4}));
  const Value columns = graph.Make<Constant>({}, Columns({0, 1}));
  const Value moments = graph.Make<Moments>({x, weights, columns});
  const Value by = graph.Make<MomentsScaling>({moments, moments, columns}, Shape{2});
  const Value loss = graph.Make<ReduceSum>({graph.Make<Mul>({x, Value{by.node, 2}})});
  const auto gradient = graph::Gradients(graph, loss, std::vector{x})[0];
  const std::string text = graph.ToString();
  // d loss / d x is the factor alone: nothing that depends on x through the moments.
  EXPECT_EQ(text.find("grad/moments"), std::string::npos) << text;
  EXPECT_EQ(graph.shape(gradient), (Shape{4, 2}));
}

TEST(ShapeRules, OfMomentsNameTheSizes) {
  const TensorType x = F32({4, 3}), w = F32({4}), columns{DType::kI32, {2}}, words = F32({3, 2, 2});
  EXPECT_EQ(Refusal(Moments(), {x, w, columns}), "accepted");
  EXPECT_EQ(Refusal(Moments(), {F32({}), w, columns}), "x[] must be [batch, ...]");
  EXPECT_EQ(Refusal(Moments(), {x, F32({3}), columns}),
            "weights[3] must have one element per row of x[4, 3]");
  EXPECT_EQ(Refusal(Moments(), {x, w, w}), "columns are f32[4]; must be a list of i32");
  EXPECT_EQ(Refusal(MomentsScaling(Shape{3}), {words, words, columns}), "accepted");
  EXPECT_EQ(Refusal(MomentsScaling(Shape{3}), {words, F32({3, 3, 2}), columns}),
            "input 1 is f32[3, 3, 2]; must be f32[3, 2, 2]");
}

}  // namespace
}  // namespace leat::ops
