#include "lab/study/throughput.h"

#include <gtest/gtest.h>

namespace leat::study {
namespace {

using namespace std::chrono_literals;

TEST(Throughput, IsTakenBetweenTwoMomentsAtWhichEventsCount) {
  ThroughputMeter meter(1s);
  meter.Note(0s, 0);
  EXPECT_FALSE(meter.rate());
  // 100 events every 400 ms, seen every 100 ms.
  for (int i = 1; i <= 100; ++i) meter.Note(i * 100ms, static_cast<uint64_t>(i / 4 * 100));
  ASSERT_TRUE(meter.rate());
  EXPECT_DOUBLE_EQ(*meter.rate(), 250);
}

TEST(Throughput, TheStartDoesNotCount) {
  ThroughputMeter meter(2s);
  for (int i = 1; i <= 10; ++i) meter.Note(i * 100ms, static_cast<uint64_t>(i));
  EXPECT_FALSE(meter.rate());
  for (int i = 1; i <= 40; ++i) meter.Note(1s + i * 100ms, static_cast<uint64_t>(10 + i * 10));
  EXPECT_DOUBLE_EQ(*meter.rate(), 100);
}

}  // namespace
}  // namespace leat::study
