#include "ps/parameters.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "ps/testing.h"

namespace leat::ps {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Parameters, EverySliceIsItsPartOfItsVariable) {
  const auto table = testing::SmallTable();
  const Parameters parameters(table);
  EXPECT_EQ(parameters.table(), table);
  for (const bool gradients : {false, true}) {
    const auto whole = [&](size_t v) { return gradients ? parameters.gradients(v) : parameters.values(v); };
    float next = 0;
    for (size_t v = 0; v < table.variables.size(); ++v) {
      ASSERT_EQ(whole(v).size(), static_cast<size_t>(table.variables[v].shape.elements()));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(whole(v).data()) % Buffer::kAlignment, 0u);
      for (float& x : whole(v)) x = ++next;
    }
    // Each element is there once, in the order of variables and slices.
    float seen = 0;
    for (const SliceId slice : testing::AllSlices(table)) {
      const auto part = gradients ? parameters.gradients(slice) : parameters.values(slice);
      ASSERT_EQ(part.size(), table.slices[slice.value].elements());
      for (const float x : part) EXPECT_EQ(x, ++seen);
    }
    EXPECT_EQ(seen, next);
  }
  EXPECT_EQ(parameters.values(size_t{0})[0], 1) << "values and gradients do not share memory";
}

TEST(Parameters, BeginAsZeros) {
  const Parameters parameters(testing::SmallTable());
  EXPECT_TRUE(parameters.GradientsFinite());
  for (const float x : parameters.values(size_t{0})) EXPECT_EQ(x, 0);
}

TEST(Parameters, OneGradientThatIsNotFiniteIsFoundWhereverItIs) {
  for (const int64_t elements : {1, 2, 15, 16, 17, 63, 200}) {
    const Parameters parameters(
        protocol::MakeSlices({{"a", Shape{elements}, {}}, {"b", Shape{3}, {}}}, 1, 1));
    for (size_t v = 0; v < 2; ++v) {
      for (float& x : parameters.gradients(v)) {
        for (const float bad :
             {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
              -std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::signaling_NaN()}) {
          x = bad;
          EXPECT_FALSE(parameters.GradientsFinite()) << elements << " " << v;
        }
        x = 1;
      }
    }
    EXPECT_TRUE(parameters.GradientsFinite());
  }
}

TEST(Parameters, EveryFiniteNumberIsFinite) {
  using Limits = std::numeric_limits<float>;
  const Parameters parameters(testing::SmallTable());
  const auto gradients = parameters.gradients(size_t{0});
  for (const float good : {0.0f, -0.0f, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min(),
                           -Limits::denorm_min(), Limits::epsilon()}) {
    for (float& x : gradients) x = good;
    EXPECT_TRUE(parameters.GradientsFinite()) << good;
  }
}

TEST(Parameters, ValuesDoNotCountAsGradients) {
  const Parameters parameters(testing::SmallTable());
  parameters.values(size_t{1})[0] = kInfinity;
  EXPECT_TRUE(parameters.GradientsFinite());
}

}  // namespace
}  // namespace leat::ps
