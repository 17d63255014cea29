#include "protocol/slices/traffic_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

using std::chrono::seconds;
using ::testing::IsEmpty;

const NodeId kSource(1), kTarget(2);

TEST(TrafficMeterTest, MeasuresBetweenTwoReportsOfAServer) {
  TrafficMeter meter(2);
  meter.OnReport(seconds(1), kSource, {{SliceId(0), 0, 1000}, {SliceId(1), 0, 0}});
  EXPECT_THAT(meter.Rates(), IsEmpty());
  meter.OnReport(seconds(3), kSource, {{SliceId(0), 0, 3000}});
  EXPECT_THAT(meter.Rates(), IsEmpty()) << "one slice is unknown";
  meter.OnReport(seconds(3), kSource, {{SliceId(1), 10, 0}});
  ASSERT_EQ(meter.Rates().size(), 2u);
  EXPECT_EQ(meter.Rates()[0], 1000);
  EXPECT_GT(meter.Rates()[1], 0) << "requests without bytes are work, too";
}

TEST(TrafficMeterTest, ASliceThatMovesKeepsItsRate) {
  TrafficMeter meter(1);
  meter.OnReport(seconds(1), kSource, {{SliceId(0), 0, 0}});
  meter.OnReport(seconds(2), kSource, {{SliceId(0), 0, 500}});
  meter.OnReport(seconds(3), kTarget, {{SliceId(0), 0, 100'000}});
  EXPECT_EQ(meter.Rates()[0], 500) << "another server counts from zero";
  meter.OnReport(seconds(4), kTarget, {{SliceId(0), 0, 50}});
  EXPECT_EQ(meter.Rates()[0], 500) << "it was there before";
  meter.OnReport(seconds(5), kTarget, {{SliceId(0), 0, 150}});
  EXPECT_LT(meter.Rates()[0], 500);
  EXPECT_GT(meter.Rates()[0], 100) << "a mean of the last reports";
}

TEST(TrafficMeterTest, UnknownSlicesAreIgnored) {
  TrafficMeter meter(1);
  meter.OnReport(seconds(1), kSource, {{SliceId(1), 0, 0}, {SliceId(77), 0, 0}});
  EXPECT_THAT(meter.Rates(), IsEmpty());
}

}  // namespace
}  // namespace leat::protocol
