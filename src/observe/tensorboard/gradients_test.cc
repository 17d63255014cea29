#include "observe/tensorboard/gradients.h"

#include <gtest/gtest.h>

#include <cmath>

namespace leat::tensorboard {
namespace {

std::vector<optim::VariableSpec> Variables() {
  return {{.name = "w", .shape = {4}},
          {.name = "moments", .shape = {4}, .role = optim::VariableRole::kMoments},
          {.name = "b", .shape = {2}}};
}

TEST(Gradients, AreReadBack) {
  const std::vector<std::vector<float>> gradients = {{1, 2, 3, 4}, {9, 9, 9, 9}, {-1, 0.5f}};
  const Bytes bytes =
      EncodeGradients(Variables(), [&](size_t v) { return std::span<const float>(gradients[v]); });
  const auto found = DecodeGradients(bytes, Variables());
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].first, "w");
  EXPECT_EQ((*found)[0].second.sum, 10);
  EXPECT_EQ((*found)[1].first, "b");
  EXPECT_EQ((*found)[1].second.min, -1);
}

TEST(Gradients, OfALargeModelSome) {
  const std::vector<optim::VariableSpec> variables = {{.name = "w", .shape = {12 << 20}}};
  const std::vector<float> gradient(12 << 20, 2.0f);
  const auto found = DecodeGradients(
      EncodeGradients(variables, [&](size_t) { return std::span<const float>(gradient); }), variables);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)[0].second.count, 3 << 20) << "every fourth";
}

TEST(Gradients, AreBounded) {
  std::vector<optim::VariableSpec> variables;
  for (int i = 0; i < 1000; ++i) variables.push_back({.name = "w" + std::to_string(i), .shape = {200}});
  // Each number in a bucket of its own.
  std::vector<float> gradient;
  for (int i = 0; i < 200; ++i) gradient.push_back(static_cast<float>(std::pow(1.25, i - 100)));
  const Bytes bytes = EncodeGradients(variables, [&](size_t) { return std::span<const float>(gradient); });
  EXPECT_LE(bytes.size(), kMostGradientBytes);
  EXPECT_GT(bytes.size(), kMostGradientBytes / 2);
  EXPECT_TRUE(DecodeGradients(bytes, variables).ok());
}

TEST(Gradients, OthersAreRefused) {
  const auto refused = [](const Event& event) {
    return DecodeGradients(AsBytes(Encode(event)), Variables()).status().code() == Code::kDataLoss;
  };
  EXPECT_TRUE(refused({.what = RunStart{}}));
  EXPECT_TRUE(refused({.what = Summary{.scalars = {{"w", 1.0f}}}}));
  EXPECT_TRUE(refused({.what = Summary{.histograms = {{"other", {}}}}}));
  EXPECT_TRUE(refused({.what = Summary{.histograms = {{"w", {}}, {"w", {}}, {"w", {}}, {"w", {}}}}}));
  EXPECT_FALSE(refused({.what = Summary{.histograms = {{"w", {}}}}}));
  EXPECT_EQ(DecodeGradients(AsBytes("\x09"), Variables()).status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace leat::tensorboard
