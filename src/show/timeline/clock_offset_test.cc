#include "show/timeline/trace.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace leat::timeline {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Round trips of random lengths, of which any part is the way there. The other clock is ahead by `ahead`, and
// gains.
struct Network {
  Rng rng;
  Duration ahead;
  double gain;  // per second

  Time Other(Time mine) const { return mine + ahead + FromSeconds(Seconds(mine) * gain); }
  ClockSample Ask(Time at) {
    const auto there = Duration(static_cast<int64_t>(rng.Exponential(200'000))) + microseconds(20);
    const auto back = Duration(static_cast<int64_t>(rng.Exponential(200'000))) + microseconds(20);
    return Measure(at, at + there + back, Other(at + there));
  }
};

TEST(ClockOffset, IsKnownToHalfARoundTrip) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Network network{
        .rng = Rng(seed), .ahead = milliseconds(static_cast<int64_t>(seed) * 997 - 100'000), .gain = 0};
    const ClockSample sample = network.Ask(seconds(5));
    EXPECT_LE(std::abs((sample.offset - network.ahead).count()), sample.error.count());
  }
}

TEST(ClockOffset, TheShortestRoundTripsCount) {
  Network network{.rng = Rng(1), .ahead = seconds(-1000), .gain = 50e-6};
  std::vector<ClockSample> samples;
  for (int i = 0; i < 50; ++i) samples.push_back(network.Ask(seconds(100) + milliseconds(100) * i));
  const auto best = Best(samples);
  ASSERT_EQ(best.size(), 2u);
  const ClockOffset offset(best);
  EXPECT_LT(offset.error(), microseconds(120));
  for (Time at = best[0].at; at <= best[1].at; at += milliseconds(77)) {
    const Duration wrong = offset.ToOther(at) - network.Other(at);
    EXPECT_LE(std::abs(wrong.count()), offset.error().count() + 1000);
  }
}

TEST(ClockOffset, TheQuestionsAtBothEndsCount) {
  std::vector<ClockSample> samples;
  for (int i = 0; i < 100; ++i)
    samples.push_back({.at = seconds(i), .offset = seconds(1), .error = seconds(2)});
  samples[45].error = samples[55].error = microseconds(1);  // questions in between
  samples[3].error = samples[90].error = milliseconds(1);
  EXPECT_EQ(Best(samples), (std::vector<ClockSample>{samples[3], samples[90]}));
}

TEST(ClockOffset, FewSamples) {
  EXPECT_TRUE(Best({}).empty());
  EXPECT_EQ(ClockOffset().ToOther(seconds(7)), Time(seconds(7)));
  EXPECT_EQ(ClockOffset().error(), Duration{0});
  const std::vector<ClockSample> one = {{.at = seconds(5), .offset = seconds(-2), .error = microseconds(3)}};
  EXPECT_EQ(Best(one), one);
  EXPECT_EQ(ClockOffset(one).ToOther(seconds(4)), Time(seconds(2)));
  EXPECT_EQ(ClockOffset(one).ToOther(seconds(6)), Time(seconds(4)));
  // All at one moment.
  const std::vector<ClockSample> same = {one[0], one[0]};
  EXPECT_EQ(Best(same), same);
  EXPECT_EQ(ClockOffset(same).ToOther(seconds(5)), Time(seconds(3)));
}

}  // namespace
}  // namespace leat::timeline
