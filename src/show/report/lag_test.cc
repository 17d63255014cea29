#include "show/report/progress.h"

#include <gtest/gtest.h>

#include <array>

#include "base/rng.h"

namespace leat::report {
namespace {

Time At(double seconds) {
  return FromSeconds(seconds);
}

TEST(Lag, IsAsOldAsTheFirstEventThatIsNotDone) {
  Lag lag;
  lag.OnStatus(At(1), std::array<uint64_t, 2>{100, 0}, std::array<uint64_t, 2>{0, 0});
  ASSERT_EQ(lag.Behind(At(3), 10).size(), 1u);
  EXPECT_EQ(lag.Behind(At(3), 10)[0].partition, 0u);
  EXPECT_EQ(lag.Behind(At(3), 10)[0].events, 100u);
  EXPECT_EQ(lag.Behind(At(3), 10)[0].seconds, 2);
  lag.OnStatus(At(4), std::array<uint64_t, 2>{150, 7}, std::array<uint64_t, 2>{100, 0});
  lag.OnStatus(At(6), std::array<uint64_t, 2>{160, 7}, std::array<uint64_t, 2>{149, 0});
  auto behind = lag.Behind(At(7), 10);
  ASSERT_EQ(behind.size(), 2u);
  EXPECT_EQ(behind[0].events, 11u);
  EXPECT_EQ(behind[0].end, 160u);
  EXPECT_EQ(behind[0].seconds, 3) << "event 149 came at 4";
  EXPECT_EQ(behind[1].partition, 1u);
  lag.OnStatus(At(8), std::array<uint64_t, 2>{160, 7}, std::array<uint64_t, 2>{150, 7});
  behind = lag.Behind(At(8), 10);
  ASSERT_EQ(behind.size(), 1u);
  EXPECT_EQ(behind[0].seconds, 2);
  lag.OnStatus(At(9), std::array<uint64_t, 2>{160, 7}, std::array<uint64_t, 2>{160, 7});
  EXPECT_TRUE(lag.Behind(At(9), 10).empty());
  lag.OnStatus(At(20), std::array<uint64_t, 2>{161, 7}, std::array<uint64_t, 2>{160, 7});
  EXPECT_EQ(lag.Behind(At(21), 10)[0].seconds, 1) << "not since the last moment of the past";
}

TEST(Lag, TheOldestEventMayBeInAPartitionThatIsLittleBehind) {
  Lag lag;
  EXPECT_EQ(lag.Oldest(At(3)), Duration(0));
  lag.OnStatus(At(0), std::array<uint64_t, 2>{1, 0}, std::array<uint64_t, 2>{0, 0});
  lag.OnStatus(At(5), std::array<uint64_t, 2>{1, 100}, std::array<uint64_t, 2>{0, 0});
  EXPECT_EQ(lag.Behind(At(7), 1)[0].seconds, 2);
  EXPECT_EQ(lag.Oldest(At(7)), std::chrono::seconds(7));
  lag.OnStatus(At(8), std::array<uint64_t, 2>{1, 100}, std::array<uint64_t, 2>{1, 60});
  EXPECT_EQ(lag.Oldest(At(8)), std::chrono::seconds(3));
  lag.OnStatus(At(9), std::array<uint64_t, 2>{1, 100}, std::array<uint64_t, 2>{1, 100});
  EXPECT_EQ(lag.Oldest(At(9)), Duration(0));
}

TEST(Lag, OfManyPartitionsThoseFurthestBehindAreListed) {
  Lag lag;
  lag.OnStatus(At(0), std::array<uint64_t, 4>{5, 9, 7, 8}, std::array<uint64_t, 4>{0, 0, 0, 0});
  const auto behind = lag.Behind(At(0), 2);
  ASSERT_EQ(behind.size(), 2u);
  EXPECT_EQ(behind[0].partition, 1u);
  EXPECT_EQ(behind[1].partition, 3u);
}

// Memory is bounded, and the time is never too short and off by a few percent at most.
TEST(Lag, StaysPreciseOverManyMoments) {
  Lag lag;
  Rng rng(1);
  constexpr int kSeconds = 3000;
  for (int second = 0; second < kSeconds; ++second)
    lag.OnStatus(At(second), std::array{uint64_t(10 * second + 10)}, std::array{uint64_t{0}});
  for (uint64_t done = 0; done < 10 * kSeconds; done += 1 + rng.Below(500)) {
    lag.OnStatus(At(kSeconds), std::array{uint64_t{10 * kSeconds}}, std::array{done});
    const double exact = kSeconds - static_cast<double>(done / 10);
    const double seconds = lag.Behind(At(kSeconds), 1)[0].seconds;
    EXPECT_GE(seconds, exact);
    EXPECT_LE(seconds, exact + 0.05 * kSeconds);
  }
}

}  // namespace
}  // namespace leat::report
