#include "train/step/longest_step.h"

#include <gtest/gtest.h>

namespace leat::step {
namespace {

using namespace std::chrono_literals;

Time At(Duration since) {
  return Time(1000s) + since;
}

TEST(LongestStep, IsTheLongestTimeBetweenTwoBatches) {
  LongestStep longest;
  EXPECT_EQ(longest.longest(), 0s);
  longest.OnBatch(At(0s));
  EXPECT_EQ(longest.longest(), 0s) << "nothing is known about the first one";
  longest.OnBatch(At(100ms));
  longest.OnBatch(At(400ms));
  longest.OnBatch(At(500ms));
  EXPECT_EQ(longest.longest(), 300ms);
}

TEST(LongestStep, ForgetsWhatIsOld) {
  LongestStep longest;
  Duration at = 0s;
  longest.OnBatch(At(at));
  longest.OnBatch(At(at += 1s));
  const Duration end = LongestStep::kSpan;
  while (at < end) longest.OnBatch(At(at += 100ms));
  EXPECT_EQ(longest.longest(), 1s);
  while (at < 2 * end) longest.OnBatch(At(at += 100ms));
  EXPECT_EQ(longest.longest(), 100ms);
}

TEST(LongestStep, ALongStepIsShownThoughItLastsForSpans) {
  LongestStep longest;
  longest.OnBatch(At(0s));
  longest.OnBatch(At(60s));
  EXPECT_EQ(longest.longest(), 60s);
  longest.OnBatch(At(61s));
  EXPECT_EQ(longest.longest(), 60s);
}

}  // namespace
}  // namespace leat::step
