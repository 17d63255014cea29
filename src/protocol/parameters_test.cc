#include "protocol/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace leat::protocol {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Two of the variables do not end at a cache line.
SliceTable SmallTable() {
  return MakeSlices({{"w", Shape{13, 17}, {}}, {"b", Shape{5}, {}}, {"v", Shape{64}, {}}}, 1, 2);
}

TEST(Parameters, EverySliceIsItsPartOfItsVariable) {
  const auto table = SmallTable();
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
    // Each element exists once, in the order of variables and slices.
    float seen = 0;
    for (uint32_t i = 0; i < table.slices.size(); ++i) {
      const SliceId slice(i);
      const auto part = gradients ? parameters.gradients(slice) : parameters.values(slice);
      ASSERT_EQ(part.size(), table.slices[slice.value].elements());
      for (const float x : part) EXPECT_EQ(x, ++seen);
    }
    EXPECT_EQ(seen, next);
  }
  EXPECT_EQ(parameters.values(size_t{0})[0], 1) << "values and gradients do not share memory";
}

TEST(Parameters, BeginAsZeros) {
  const Parameters parameters(SmallTable());
  EXPECT_TRUE(parameters.GradientsFinite());
  for (const float x : parameters.values(size_t{0})) EXPECT_EQ(x, 0);
}

TEST(Parameters, GradientsThatAreHeldStayAndTheNextOnesGoElsewhere) {
  size_t allocated = 0;
  Parameters parameters(SmallTable(), [&](size_t bytes) {
    ++allocated;
    return Buffer(bytes);
  });
  EXPECT_FALSE(parameters.AcquireGradientBuffer()) << "nobody holds them";
  for (float& g : parameters.all_gradients()) g = 1;
  for (float& x : parameters.all_values()) x = 3;
  const float* const values = parameters.all_values().data();
  Buffer held = parameters.gradient_buffer();
  const auto before = parameters.all_gradients();
  ASSERT_EQ(reinterpret_cast<const float*>(held.data()), before.data());

  EXPECT_TRUE(parameters.AcquireGradientBuffer());
  EXPECT_EQ(allocated, 2u) << "from where the first came";
  EXPECT_NE(parameters.all_gradients().data(), before.data());
  EXPECT_EQ(parameters.all_gradients().size(), before.size());
  for (const float g : parameters.all_gradients()) EXPECT_EQ(g, 0);
  for (float& g : parameters.gradients(size_t{2})) g = 2;
  for (const float g : before) EXPECT_EQ(g, 1) << "as long as it is held";
  EXPECT_EQ(parameters.all_values().data(), values);
  EXPECT_EQ(parameters.values(size_t{0})[0], 3);

  EXPECT_FALSE(parameters.AcquireGradientBuffer()) << "nobody holds these";
  held = parameters.gradient_buffer();
  held = {};
  EXPECT_FALSE(parameters.AcquireGradientBuffer()) << "nor any more";
  EXPECT_EQ(parameters.gradients(size_t{2})[0], 2) << "what stays is not changed";
  EXPECT_EQ(allocated, 2u);
}

TEST(Parameters, GradientsThatAreHeldForAWhileTakeTurns) {
  size_t allocated = 0;
  Parameters parameters(SmallTable(), [&](size_t bytes) {
    ++allocated;
    return Buffer(bytes);
  });
  std::vector<Buffer> held;
  for (int step = 0; step < 10; ++step) {
    parameters.AcquireGradientBuffer();
    held.push_back(parameters.gradient_buffer());
    if (held.size() > 1) held.erase(held.begin());  // the previous step's buffer
  }
  EXPECT_EQ(allocated, 2u);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(parameters.AcquireGradientBuffer());
    for (const Buffer& buffer : held) EXPECT_NE(buffer.data(), parameters.gradient_buffer().data());
    held.push_back(parameters.gradient_buffer());
  }
  EXPECT_EQ(allocated, 4u) << "as many as are held";
}

TEST(Parameters, OneGradientThatIsNotFiniteIsFoundWhereverItIs) {
  for (const int64_t elements : {1, 2, 15, 16, 17, 63, 200}) {
    const Parameters parameters(MakeSlices({{"a", Shape{elements}, {}}, {"b", Shape{3}, {}}}, 1, 1));
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

TEST(Parameters, OfTermsItIsTheirSumThatCounts) {
  const Parameters parameters(MakeSlices({{"a", Shape{10'000}, {}}}, 1, 1));
  const size_t all = parameters.all_gradients().size();
  constexpr float kHuge = std::numeric_limits<float>::max();
  std::vector<float> a(all, 1), b(all, 2), c(all, 3);
  const GradientTerms terms{a, b, c};
  for (float& g : parameters.all_gradients()) g = kInfinity;
  EXPECT_TRUE(parameters.GradientsFinite(terms));
  for (const size_t i : {size_t{0}, size_t{4095}, size_t{4096}, size_t{9'999}}) {
    a[i] = kHuge;
    EXPECT_TRUE(parameters.GradientsFinite(terms));
    c[i] = kHuge;
    EXPECT_FALSE(parameters.GradientsFinite(terms)) << i;
    a[i] = c[i] = 1;
  }
}

TEST(Parameters, EveryFiniteNumberIsFinite) {
  using Limits = std::numeric_limits<float>;
  const Parameters parameters(SmallTable());
  const auto gradients = parameters.gradients(size_t{0});
  for (const float good : {0.0f, -0.0f, Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min(),
                           -Limits::denorm_min(), Limits::epsilon()}) {
    for (float& x : gradients) x = good;
    EXPECT_TRUE(parameters.GradientsFinite()) << good;
  }
}

TEST(Parameters, ValuesDoNotCountAsGradients) {
  const Parameters parameters(SmallTable());
  parameters.values(size_t{1})[0] = kInfinity;
  EXPECT_TRUE(parameters.GradientsFinite());
}

// Two trained variables with a statistic between them.
class ClipTest : public ::testing::Test {
 protected:
  ClipTest()
      : parameters_(MakeSlices({{"a", Shape{33}, {}},
                                {"mean", Shape{7}, {}, optim::VariableRole::kStatistic},
                                {"b", Shape{5, 4}, {}}},
                               1, 1)) {
    float next = -20;
    for (size_t v = 0; v < 3; ++v) {
      for (float& g : parameters_.gradients(v)) g = next += 0.75f;
    }
    for (float& g : parameters_.gradients(size_t{1})) g = 1000;
  }
  double Norm() const {
    double sum = 0;
    for (const size_t v : {size_t{0}, size_t{2}}) {
      for (const float g : parameters_.gradients(v)) sum += double{g} * g;
    }
    return std::sqrt(sum);
  }
  std::vector<float> Gradients() const {
    std::vector<float> all;
    for (size_t v = 0; v < 3; ++v) {
      all.insert(all.end(), parameters_.gradients(v).begin(), parameters_.gradients(v).end());
    }
    return all;
  }
  Parameters parameters_;
};

TEST_F(ClipTest, AllTogetherAreScaledToTheNorm) {
  const auto before = Gradients();
  const double norm = Norm();
  EXPECT_TRUE(parameters_.Clip({.norm = 2}));
  EXPECT_NEAR(Norm(), 2, 1e-5);
  const auto after = Gradients();
  for (size_t i = 0; i < after.size(); ++i) {
    const bool statistic = i >= 33 && i < 40;
    EXPECT_FLOAT_EQ(after[i], statistic ? 1000 : static_cast<float>(before[i] * 2 / norm));
  }
}

TEST_F(ClipTest, WhatIsShortStaysAsItIs) {
  const auto before = Gradients();
  EXPECT_TRUE(parameters_.Clip({}));
  EXPECT_TRUE(parameters_.Clip({.norm = static_cast<float>(Norm() * 1.01)}));
  EXPECT_TRUE(parameters_.Clip({.value = 100}));
  EXPECT_EQ(Gradients(), before);
}

TEST_F(ClipTest, ElementsAreCutBeforeTheNormIsTaken) {
  EXPECT_TRUE(parameters_.Clip({.value = 1}));
  EXPECT_EQ(parameters_.gradients(size_t{0})[0], -1);
  EXPECT_EQ(parameters_.gradients(size_t{1})[0], 1000);
  const auto cut = Gradients();
  const double norm = Norm();
  EXPECT_TRUE(parameters_.Clip({.value = 1, .norm = 1}));
  EXPECT_FLOAT_EQ(Gradients()[0], static_cast<float>(cut[0] / norm));
}

TEST_F(ClipTest, NonFiniteGradientsAreReportedAndNotClipped) {
  for (size_t v = 0; v < 3; ++v) {
    for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
      for (const optim::Clipping& clipping :
           {optim::Clipping{}, {.norm = 1}, {.value = 1}, {.value = 1, .norm = 1}}) {
        float& g = parameters_.gradients(v).back();
        const float good = g;
        const float other = parameters_.gradients(size_t{0})[0];
        g = bad;
        EXPECT_FALSE(parameters_.Clip(clipping)) << v;
        EXPECT_EQ(parameters_.gradients(size_t{0})[0], other);
        g = good;
      }
    }
  }
}

// Words that are NaN as numbers.
TEST(ParametersWithMoments, TheirWordsAreNoGradients) {
  Parameters parameters(MakeSlices(
      {{"moments", Shape{3, 2, 2}, {}, optim::VariableRole::kMoments}, {"w", Shape{4}, {}}}, 1, 1));
  const auto words = parameters.gradients(size_t{0});
  std::ranges::fill(words, std::numeric_limits<float>::quiet_NaN());
  std::ranges::fill(parameters.gradients(size_t{1}), 2.0f);
  const auto before = std::bit_cast<uint32_t>(words[0]);
  for (const optim::Clipping& clipping : {optim::Clipping{}, {.norm = 1}, {.value = 0.25f}}) {
    EXPECT_TRUE(parameters.GradientsFinite());
    EXPECT_TRUE(parameters.Clip(clipping));
    for (const float word : words) EXPECT_EQ(std::bit_cast<uint32_t>(word), before);
  }
  EXPECT_EQ(parameters.gradients(size_t{1})[0], 0.25f) << "by the norm to a half, then by value";
  parameters.gradients(size_t{1})[3] = kInfinity;
  EXPECT_FALSE(parameters.GradientsFinite());
}

}  // namespace
}  // namespace leat::protocol
