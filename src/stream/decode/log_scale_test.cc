#include "stream/decode/row_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"

namespace leat::stream {
namespace {

float Reference(double x, double scale, double shift) {
  return static_cast<float>(std::log1p(x) * scale + shift);
}

TEST(LogScale, IsWhatTheLibraryGives) {
  Rng rng(5);
  constexpr double kShifts[] = {0, -3.5, 12.25, -0.693, 1e6};
  for (int i = 0; i < 2'000'000; ++i) {
    const double x = i % 3 == 0   ? rng.Uniform() * 1000
                     : i % 3 == 1 ? std::exp(60 * rng.Uniform() - 30)
                                  : static_cast<double>(rng.Below(100'000)) / 100;
    const double scale = (rng.Chance(0.2) ? -1 : 1) * std::exp(6 * rng.Uniform() - 3);
    const double shift = kShifts[rng.Below(std::size(kShifts))] * scale;
    ASSERT_EQ(LogScale(scale, shift)(x), Reference(x, scale, shift)) << x << " " << scale << " " << shift;
  }
}

TEST(LogScale, IsWhatTheLibraryGivesForStrangeNumbers) {
  constexpr double kMost = std::numeric_limits<double>::max();
  for (const double x : {0.0, -0.0, 5e-324, 1e-300, 1e-17, 0x1p-53, 1.0, 0x1p53 - 1, 1e300, kMost, -0.5}) {
    for (const double scale : {1.0, 1e-300, 1e300, -2.0}) {
      for (const double shift : {0.0, -1.0, 1e30}) {
        EXPECT_EQ(LogScale(scale, shift)(x), Reference(x, scale, shift)) << x << " " << scale;
      }
    }
  }
  EXPECT_TRUE(std::isnan(LogScale(1, 0)(std::nan(""))));
  EXPECT_TRUE(std::isnan(LogScale(1, 0)(-2)));
  EXPECT_EQ(LogScale(1, 0)(std::numeric_limits<double>::infinity()), std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace leat::stream
