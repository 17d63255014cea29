#include "compute/optim/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <vector>

namespace leat::optim {
namespace {

std::vector<float> Draw(const InitSpec& init, uint64_t seed, std::string_view name, uint64_t begin,
                        size_t n) {
  std::vector<float> out(n, NAN);
  Initialise(init, seed, name, begin, out);
  return out;
}

struct InitMoments {
  double mean = 0;
  double deviation = 0;
};

InitMoments Of(const std::vector<float>& values) {
  InitMoments m;
  for (const float v : values) m.mean += v / static_cast<double>(values.size());
  for (const float v : values)
    m.deviation += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

constexpr size_t kMany = 100000;

TEST(InitTest, ZerosAndConstant) {
  EXPECT_THAT(Draw({.kind = InitKind::kZeros}, 1, "w", 0, 3), ::testing::Each(0.0f));
  EXPECT_THAT(Draw({.kind = InitKind::kConstant, .value = 2.5f}, 1, "w", 0, 3), ::testing::Each(2.5f));
}

TEST(InitTest, GlorotUniformHasItsLimitAndMoments) {
  const double limit = std::sqrt(6.0 / (30 + 64));
  const auto values = Draw({.kind = InitKind::kGlorotUniform, .fan_in = 30, .fan_out = 64}, 1, "w", 0, kMany);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -limit);
  EXPECT_LE(*most, limit);
  EXPECT_GT(*most - *least, 2 * limit * 0.999);
  const InitMoments m = Of(values);
  EXPECT_NEAR(m.mean, 0, 4 * limit / std::sqrt(3.0 * kMany));
  EXPECT_NEAR(m.deviation, limit / std::sqrt(3.0), 0.01 * limit);
}

TEST(InitTest, HeNormalHasItsMoments) {
  const double deviation = std::sqrt(2.0 / 784);
  const InitMoments m = Of(Draw({.kind = InitKind::kHeNormal, .fan_in = 784}, 1, "w", 0, kMany));
  EXPECT_NEAR(m.mean, 0, 4 * deviation / std::sqrt(double{kMany}));
  EXPECT_NEAR(m.deviation, deviation, 0.01 * deviation);
}

TEST(InitTest, NormalHasItsDeviation) {
  const InitMoments m = Of(Draw({.kind = InitKind::kNormal, .value = 0.02f}, 1, "w", 0, kMany));
  EXPECT_NEAR(m.mean, 0, 4 * 0.02 / std::sqrt(double{kMany}));
  EXPECT_NEAR(m.deviation, 0.02, 0.01 * 0.02);
}

TEST(InitTest, UniformHasItsLimit) {
  const auto values = Draw({.kind = InitKind::kUniform, .value = 0.25f}, 1, "w", 0, kMany);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -0.25f);
  EXPECT_LE(*most, 0.25f);
  EXPECT_NEAR(Of(values).deviation, 0.25 / std::sqrt(3.0), 0.001);
}

TEST(InitTest, GivenValuesAreTaken) {
  const auto given = std::make_shared<const std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5});
  const InitSpec init{.kind = InitKind::kGiven, .given = given};
  EXPECT_EQ(Draw(init, 1, "w", 0, 5), *given);
  EXPECT_EQ(Draw(init, 1, "w", 2, 2), (std::vector<float>{3, 4}));
  EXPECT_TRUE(Draw(init, 1, "w", 5, 0).empty());
}

TEST(InitTest, SpecsAreEqualByWhatTheyGive) {
  const auto spec = [](std::vector<float> values) {
    return InitSpec{.kind = InitKind::kGiven,
                    .given = std::make_shared<const std::vector<float>>(std::move(values))};
  };
  EXPECT_EQ(spec({1, 2}), spec({1, 2}));
  EXPECT_FALSE(spec({1, 2}) == spec({1, 3}));
  EXPECT_FALSE(spec({1, 2}) == InitSpec{.kind = InitKind::kGiven});
  EXPECT_EQ(InitSpec{}, InitSpec{});
  EXPECT_FALSE(InitSpec{} == InitSpec{.value = 1});
}

TEST(InitTest, AnyPartByItselfIsTheSame) {
  const auto given = std::make_shared<const std::vector<float>>(
      Draw({.kind = InitKind::kUniform, .value = 1}, 3, "g", 0, 100));
  for (const InitKind kind : {InitKind::kGlorotUniform, InitKind::kHeNormal, InitKind::kNormal,
                              InitKind::kUniform, InitKind::kGiven}) {
    const InitSpec init{.kind = kind, .value = 0.5f, .fan_in = 7, .fan_out = 5, .given = given};
    const auto whole = Draw(init, 9, "dense1/weight", 0, 100);
    for (size_t begin = 0; begin < 100; begin += 13) {
      const size_t n = std::min<size_t>(13, 100 - begin);
      EXPECT_THAT(Draw(init, 9, "dense1/weight", begin, n),
                  ::testing::ElementsAreArray(whole.data() + begin, n));
    }
  }
}

TEST(InitTest, SeedAndNameDecide) {
  const InitSpec init{.kind = InitKind::kHeNormal, .fan_in = 4};
  const auto values = Draw(init, 1, "a", 0, 8);
  EXPECT_EQ(values, Draw(init, 1, "a", 0, 8));
  EXPECT_NE(values, Draw(init, 2, "a", 0, 8));
  EXPECT_NE(values, Draw(init, 1, "b", 0, 8));
}

}  // namespace
}  // namespace leat::optim
