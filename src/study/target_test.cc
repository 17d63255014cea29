#include "study/target.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace leat::study {
namespace {

TEST(Target, IsAFigureAndAValue) {
  EXPECT_EQ(ParseTarget("accuracy=0.95").value, 0.95);
  EXPECT_EQ(ParseTarget("loss=0.3").figure, "loss");
  for (const char* bad : {"", "accuracy", "accuracy=", "accuracy=x", "speed=3", "loss=-1", "accuracy=0.5x"})
    EXPECT_THROW(ParseTarget(bad), std::invalid_argument) << bad;
}

TEST(Target, IsReachedOnceTheWindowIsFull) {
  TargetWatch watch(ParseTarget("accuracy=0.9"));
  watch.Note({{"events", 1000}, {"window", 1000}, {"training_s", 1.0}, {"accuracy", 0.99}});
  EXPECT_FALSE(watch.reached());
  watch.Note({{"events", 6000}, {"window", 5000}, {"training_s", 2.0}, {"accuracy", 0.89}});
  watch.Note({{"events", 7000}, {"window", 5000}, {"training_s", 3.0}, {"accuracy", nullptr}});
  EXPECT_FALSE(watch.reached());
  watch.Note({{"events", 8000}, {"window", 5000}, {"training_s", 4.0}, {"accuracy", 0.91}});
  watch.Note({{"events", 9000}, {"window", 5000}, {"training_s", 5.0}, {"accuracy", 0.95}});
  ASSERT_TRUE(watch.reached());
  // Half of the way from 0.89 to 0.91.
  EXPECT_NEAR(watch.reached()->seconds, 3.0, 1e-9);
  EXPECT_NEAR(watch.reached()->events, 7000, 1e-6);
}

TEST(Target, ALossFallsToIt) {
  TargetWatch watch(ParseTarget("loss=0.3"));
  watch.Note({{"events", 6000}, {"window", 5000}, {"training_s", 2.0}, {"loss", 0.4}});
  EXPECT_FALSE(watch.reached());
  watch.Note({{"events", 7000}, {"window", 5000}, {"training_s", 3.0}, {"loss", 0.3}});
  ASSERT_TRUE(watch.reached());
  EXPECT_EQ(watch.reached()->seconds, 3.0);
}

TEST(Target, MayBeReachedWithTheFirstFullWindow) {
  TargetWatch watch(ParseTarget("accuracy=0.9"));
  watch.Note({{"events", 6000}, {"window", 5000}, {"training_s", 2.0}, {"accuracy", 0.95}});
  ASSERT_TRUE(watch.reached());
  EXPECT_EQ(watch.reached()->seconds, 2.0);
}

}  // namespace
}  // namespace leat::study
