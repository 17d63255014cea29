#include "lab/sim/events/distribution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

namespace leat::sim {
namespace {

TEST(Distribution, DrawsWhatWasMeasured) {
  const Distribution measured = Measured({3, 1, 2, 4, 5});
  EXPECT_DOUBLE_EQ(measured.mean, 3);
  Rng rng(1);
  double sum = 0, least = 9, most = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double drawn = Seconds(measured.Draw(rng));
    sum += drawn;
    least = std::min(least, drawn);
    most = std::max(most, drawn);
  }
  EXPECT_NEAR(sum / 10'000, 3, 0.05);
  EXPECT_GE(least, 1);
  EXPECT_LE(most, 5);
  EXPECT_LT(least, 1.1);
  EXPECT_GT(most, 4.9);
  EXPECT_EQ(Measured({7}).Draw(rng), std::chrono::seconds(7));
}

TEST(Distribution, SizesAndTimesHaveUnits) {
  EXPECT_EQ(ParseBytes("512kb"), 512u << 10);
  EXPECT_EQ(ParseBytes("0b"), 0u);
  EXPECT_EQ(ParseBytes("1.5mb"), 3u << 19);
  EXPECT_EQ(ParseDuration("10m"), std::chrono::minutes(10));
  EXPECT_EQ(ParseDuration("2h"), std::chrono::hours(2));
  EXPECT_EQ(ParseDuration("3ms"), std::chrono::milliseconds(3));
  for (const char* bad : {"", "512", "kb", "-1b", "1tb", "1kbit"})
    EXPECT_THROW(ParseBytes(bad), std::invalid_argument) << bad;
}

}  // namespace
}  // namespace leat::sim
