#include "protocol/leases/lease_book.h"

#include <gmock/gmock.h>

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr NodeId kW(7), kV(8);

class LeasePaceTest : public ::testing::Test {
 protected:
  // Leases that take this long each.
  void End(NodeId worker, Duration each, int count) {
    for (int i = 0; i < count; ++i) {
      pace_.OnGranted(now_, worker, ++last_);
      now_ += each;
      pace_.OnEnded(now_, worker, last_);
    }
  }
  // Heartbeats for that long, one each interval.
  void Pass(NodeId worker, Duration time, bool waiting) {
    for (const Time until = now_ + time; now_ < until;) {
      now_ += limits_.heartbeat_interval;
      pace_.OnHeartbeat(now_, worker, waiting);
    }
  }

  LeaseLimits limits_{.first = minutes(15), .shortest = seconds(10), .heartbeat_interval = milliseconds(100)};
  LeasePace pace_{limits_};
  Time now_ = seconds(1000);
  uint64_t last_ = 100;
};

TEST_F(LeasePaceTest, TheFirstLeaseHasTheLongLimit) {
  pace_.OnGranted(now_, kW, 1);
  now_ += minutes(15) - seconds(1);
  EXPECT_THAT(pace_.Overdue(now_), IsEmpty());
  now_ += seconds(1);
  EXPECT_THAT(pace_.Overdue(now_), ElementsAre(1));
  now_ += minutes(15);
  EXPECT_THAT(pace_.Overdue(now_), IsEmpty()) << "it is returned once";
}

TEST_F(LeasePaceTest, TheLimitIsFourTimesTheMedianOfTheLastEight) {
  End(kW, seconds(100), 8);
  End(kW, seconds(30), 5);
  EXPECT_EQ(pace_.LimitOf(kW), seconds(120));
  pace_.OnGranted(now_, kW, 1);
  now_ += seconds(119);
  EXPECT_THAT(pace_.Overdue(now_), IsEmpty());
  now_ += seconds(1);
  EXPECT_THAT(pace_.Overdue(now_), ElementsAre(1));
}

TEST_F(LeasePaceTest, ShortLeasesHaveTheShortestLimit) {
  End(kW, milliseconds(5), 8);
  EXPECT_EQ(pace_.LimitOf(kW), seconds(10));
}

TEST_F(LeasePaceTest, ALeaseBeginsWhenTheOneBeforeItHasEnded) {
  End(kW, seconds(5), 8);  // a limit of 20 s
  pace_.OnGranted(now_, kW, 1);
  pace_.OnGranted(now_, kW, 2);
  now_ += seconds(15);
  pace_.OnEnded(now_, kW, 1);
  now_ += seconds(15);
  EXPECT_THAT(pace_.Overdue(now_), IsEmpty());
  now_ += seconds(5);
  EXPECT_THAT(pace_.Overdue(now_), ElementsAre(2));
}

TEST_F(LeasePaceTest, LeasesBehindAnOverdueOneFollowOneByOne) {
  End(kW, seconds(5), 8);
  for (uint64_t lease : {1, 2, 3}) pace_.OnGranted(now_, kW, lease);
  now_ += seconds(20);
  EXPECT_THAT(pace_.Overdue(now_), ElementsAre(1));
  now_ += seconds(20);
  EXPECT_THAT(pace_.Overdue(now_), ElementsAre(2));
  now_ += seconds(20);
  EXPECT_THAT(pace_.Overdue(now_), ElementsAre(3));
}

TEST_F(LeasePaceTest, WaitingForOthersDoesNotCount) {
  End(kW, seconds(5), 8);
  pace_.OnGranted(now_, kW, 1);
  Pass(kW, seconds(60), true);
  EXPECT_THAT(pace_.Overdue(now_), IsEmpty());
  Pass(kW, seconds(15), false);
  EXPECT_THAT(pace_.Overdue(now_), IsEmpty());
  pace_.OnEnded(now_, kW, 1);
  EXPECT_EQ(pace_.LimitOf(kW), seconds(20)) << "nor for the median";
}

// A loop that computes for a minute sends its heartbeat after that, when it waits already.
TEST_F(LeasePaceTest, AHeartbeatAfterALongBatchDoesNotMakeTheBatchAWait) {
  for (int i = 0; i < 8; ++i) {
    pace_.OnGranted(now_, kW, ++last_);
    now_ += seconds(60);
    pace_.OnHeartbeat(now_, kW, true);
    pace_.OnEnded(now_, kW, last_);
  }
  EXPECT_GT(pace_.LimitOf(kW), seconds(238));
  EXPECT_LE(pace_.LimitOf(kW), seconds(240));
}

TEST_F(LeasePaceTest, WhatIsTakenOrForgottenIsNotOverdue) {
  End(kW, seconds(1), 8);
  End(kV, seconds(1), 8);
  pace_.OnGranted(now_, kW, 1);
  pace_.OnGranted(now_, kV, 2);
  pace_.OnTaken(kW, 1);
  pace_.Forget(kV);
  now_ += minutes(60);
  EXPECT_THAT(pace_.Overdue(now_), IsEmpty());
  EXPECT_EQ(pace_.LimitOf(kV), minutes(15));
}

}  // namespace
}  // namespace leat::protocol
