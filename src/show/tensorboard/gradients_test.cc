#include "show/tensorboard/events.h"

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
  EXPECT_EQ((*found)[0].name, "w");
  EXPECT_EQ((*found)[0].histogram.sum, 10);
  EXPECT_EQ((*found)[1].name, "b");
  EXPECT_EQ((*found)[1].histogram.min, -1);
}

TEST(Gradients, OfALargeModelSome) {
  const std::vector<optim::VariableSpec> variables = {{.name = "w", .shape = {12 << 20}}};
  const std::vector<float> gradient(12 << 20, 2.0f);
  const auto found = DecodeGradients(
      EncodeGradients(variables, [&](size_t) { return std::span<const float>(gradient); }), variables);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ((*found)[0].histogram.count, 3 << 20) << "every fourth";
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
  const std::vector<float> gradient = {1, 2, 3, 4};
  const auto encoded = [&](const std::vector<std::string>& names) {
    std::vector<optim::VariableSpec> variables;
    for (const std::string& name : names) variables.push_back({.name = name, .shape = {4}});
    return EncodeGradients(variables, [&](size_t) { return std::span<const float>(gradient); });
  };
  const auto refused = [](ByteView bytes) {
    return DecodeGradients(bytes, Variables()).status().code() == Code::kDataLoss;
  };
  EXPECT_TRUE(refused(encoded({"other"})));
  EXPECT_TRUE(refused(encoded({"w", "w", "w", "w"})));
  EXPECT_FALSE(refused(encoded({"w"})));
  const Bytes bytes = encoded({"w", "b"});
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_TRUE(refused(ByteView(bytes).first(size))) << size;
  EXPECT_TRUE(refused(AsBytes("\x09")));
}

TEST(Gradients, HistogramsAreChecked) {
  const double nan = std::nan("");
  EXPECT_TRUE(Check({.limits = {1, 2}, .counts = {3, 4}}).ok());
  EXPECT_EQ(Check({.limits = {1}, .counts = {3, 4}}).message(),
            "a histogram has more limits than counts, or fewer");
  EXPECT_EQ(Check({.limits = {1, 1}, .counts = {3, 4}}).message(), "the limits of a histogram do not ascend");
  EXPECT_FALSE(Check({.limits = {nan, 1}, .counts = {3, 4}}).ok());
}

}  // namespace
}  // namespace leat::tensorboard
