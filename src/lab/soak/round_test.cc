#include "lab/soak/soak.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace leat::soak {
namespace {

TEST(Tally, FindsNothingWhereAllIsCounted) {
  const Tally tally = TallyOf({{100, 100}, {100}}, 100);
  EXPECT_EQ(tally.lost + tally.twice + tally.wrong, 0u);
  EXPECT_EQ(tally.reason, "");
}

TEST(Tally, TellsLostEventsFromRepeatedOnes) {
  const Tally lost = TallyOf({{100, 93}, {100}}, 100);
  EXPECT_EQ(lost.lost, 7u);
  EXPECT_EQ(lost.twice, 0u);
  EXPECT_EQ(lost.wrong, 1u);
  const Tally twice = TallyOf({{100, 100}, {120}}, 100);
  EXPECT_EQ(twice.lost, 0u);
  EXPECT_EQ(twice.twice, 20u);
  // Neither makes up for the other.
  const Tally both = TallyOf({{95, 105, 102}, {99}}, 100);
  EXPECT_EQ(both.lost, 5u);
  EXPECT_EQ(both.twice, 5u);
  EXPECT_EQ(both.wrong, 4u);
  EXPECT_EQ(both.reason, "4 of 4 parameters are wrong: from 95 to 105 of 100 events");
}

TEST(Tally, CountsWhatIsNoWholeNumber) {
  EXPECT_EQ(TallyOf({{99.5f}}, 100).lost, 1u);
  EXPECT_EQ(TallyOf({{100.25f}}, 100).twice, 1u);
  EXPECT_EQ(TallyOf({{std::numeric_limits<float>::quiet_NaN()}}, 100).lost, 100u);
  EXPECT_EQ(TallyOf({{std::numeric_limits<float>::infinity()}}, 100).lost, 100u);
  EXPECT_EQ(TallyOf({{-7}}, 100).lost, 100u);
}

TEST(Tally, NeedsParameters) {
  EXPECT_EQ(TallyOf({}, 100).lost, 100u);
  EXPECT_EQ(TallyOf({}, 100).reason, "the checkpoint has no parameter");
}

}  // namespace
}  // namespace leat::soak
