#include "optim/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace leat::optim {
namespace {

std::vector<float> Draw(const InitSpec& init, uint64_t seed, std::string_view name, uint64_t begin,
                        size_t n) {
  std::vector<float> out(n, NAN);
  Initialise(init, seed, name, begin, out);
  return out;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments Of(const std::vector<float>& values) {
  Moments m;
  for (const float v : values) m.mean += v / static_cast<double>(values.size());
  for (const float v : values)
    m.deviation += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

constexpr size_t kMany = 100000;

TEST(InitTest, ZerosAndConstant) {
  EXPECT_THAT(Draw({.kind = InitKind::kZeros}, 1, "w", 0, 3), testing::Each(0.0f));
  EXPECT_THAT(Draw({.kind = InitKind::kConstant, .value = 2.5f}, 1, "w", 0, 3), testing::Each(2.5f));
}

TEST(InitTest, GlorotUniformHasItsLimitAndMoments) {
  const double limit = std::sqrt(6.0 / (30 + 64));
  const auto values = Draw({.kind = InitKind::kGlorotUniform, .fan_in = 30, .fan_out = 64}, 1, "w", 0, kMany);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*least, -limit);
  EXPECT_LE(*most, limit);
  EXPECT_GT(*most - *least, 2 * limit * 0.999);
  const Moments m = Of(values);
  EXPECT_NEAR(m.mean, 0, 4 * limit / std::sqrt(3.0 * kMany));
  EXPECT_NEAR(m.deviation, limit / std::sqrt(3.0), 0.01 * limit);
}

TEST(InitTest, HeNormalHasItsMoments) {
  const double deviation = std::sqrt(2.0 / 784);
  const Moments m = Of(Draw({.kind = InitKind::kHeNormal, .fan_in = 784}, 1, "w", 0, kMany));
  EXPECT_NEAR(m.mean, 0, 4 * deviation / std::sqrt(double{kMany}));
  EXPECT_NEAR(m.deviation, deviation, 0.01 * deviation);
}

TEST(InitTest, AnyPartByItselfIsTheSame) {
  for (const InitKind kind : {InitKind::kGlorotUniform, InitKind::kHeNormal}) {
    const InitSpec init{.kind = kind, .fan_in = 7, .fan_out = 5};
    const auto whole = Draw(init, 9, "dense1/weight", 0, 100);
    for (size_t begin = 0; begin < 100; begin += 13) {
      const size_t n = std::min<size_t>(13, 100 - begin);
      EXPECT_THAT(Draw(init, 9, "dense1/weight", begin, n),
                  testing::ElementsAreArray(whole.data() + begin, n));
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
