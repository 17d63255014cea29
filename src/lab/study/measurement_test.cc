#include "lab/study/analysis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace leat::study {
namespace {

using namespace std::chrono_literals;

TEST(Throughput, IsTakenBetweenTwoMomentsAtWhichEventsCount) {
  ThroughputMeter meter(1s);
  meter.Add(0s, 0);
  EXPECT_FALSE(meter.rate());
  // 100 events every 400 ms, seen every 100 ms.
  for (int i = 1; i <= 100; ++i) meter.Add(i * 100ms, static_cast<uint64_t>(i / 4 * 100));
  ASSERT_TRUE(meter.rate());
  EXPECT_DOUBLE_EQ(*meter.rate(), 250);
}

TEST(Throughput, TheStartDoesNotCount) {
  ThroughputMeter meter(2s);
  for (int i = 1; i <= 10; ++i) meter.Add(i * 100ms, static_cast<uint64_t>(i));
  EXPECT_FALSE(meter.rate());
  for (int i = 1; i <= 40; ++i) meter.Add(1s + i * 100ms, static_cast<uint64_t>(10 + i * 10));
  EXPECT_DOUBLE_EQ(*meter.rate(), 100);
}

report::JobStatus StatusOf(uint64_t events, uint64_t window, double training_s, report::Quality quality) {
  report::JobStatus status;
  status.events = events;
  status.window = window;
  status.training_s = training_s;
  status.quality = quality;
  return status;
}

TEST(Target, IsAFigureAndAValue) {
  EXPECT_EQ(ParseTarget("accuracy=0.95").value, 0.95);
  EXPECT_EQ(ParseTarget("loss=0.3").figure, "loss");
  for (const char* bad : {"", "accuracy", "accuracy=", "accuracy=x", "speed=3", "loss=-1", "accuracy=0.5x"})
    EXPECT_THROW(ParseTarget(bad), std::invalid_argument) << bad;
}

TEST(Target, IsReachedOnceTheWindowIsFull) {
  TargetWatch watch(ParseTarget("accuracy=0.9"));
  watch.OnStatus(StatusOf(1000, 1000, 1.0, {.accuracy = 0.99}));
  EXPECT_FALSE(watch.reached());
  watch.OnStatus(StatusOf(6000, 5000, 2.0, {.accuracy = 0.89}));
  watch.OnStatus(StatusOf(7000, 5000, 3.0, {.accuracy = NAN}));
  EXPECT_FALSE(watch.reached());
  watch.OnStatus(StatusOf(8000, 5000, 4.0, {.accuracy = 0.91}));
  watch.OnStatus(StatusOf(9000, 5000, 5.0, {.accuracy = 0.95}));
  ASSERT_TRUE(watch.reached());
  // Half of the way from 0.89 to 0.91.
  EXPECT_NEAR(watch.reached()->seconds, 3.0, 1e-9);
  EXPECT_NEAR(watch.reached()->events, 7000, 1e-6);
}

TEST(Target, ALossFallsToIt) {
  TargetWatch watch(ParseTarget("loss=0.3"));
  watch.OnStatus(StatusOf(6000, 5000, 2.0, {.loss = 0.4}));
  EXPECT_FALSE(watch.reached());
  watch.OnStatus(StatusOf(7000, 5000, 3.0, {.loss = 0.3}));
  ASSERT_TRUE(watch.reached());
  EXPECT_EQ(watch.reached()->seconds, 3.0);
}

TEST(Target, MayBeReachedWithTheFirstFullWindow) {
  TargetWatch watch(ParseTarget("accuracy=0.9"));
  watch.OnStatus(StatusOf(6000, 5000, 2.0, {.accuracy = 0.95}));
  ASSERT_TRUE(watch.reached());
  EXPECT_EQ(watch.reached()->seconds, 2.0);
}

}  // namespace
}  // namespace leat::study
