#include "protocol/members/roster.h"

#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

const NodeId kOne(1), kOther(2);

ServerHeartbeat Part(uint64_t report, uint32_t part, bool more) {
  ServerHeartbeat heartbeat;
  heartbeat.report = report;
  heartbeat.part = part;
  heartbeat.more = more;
  return heartbeat;
}

TEST(HeartbeatCounts, AReportOfOnePartCountsFromTheSecondHeartbeatOn) {
  HeartbeatCounts counts;
  counts[kOne].Add(Part(1, 0, false));
  const HeartbeatCounts then = counts;
  EXPECT_FALSE(AllReportedSince(then, counts));
  counts[kOne].Add(Part(2, 0, false));
  EXPECT_FALSE(AllReportedSince(then, counts)) << "it may have been made before";
  counts[kOne].Add(Part(3, 0, false));
  EXPECT_TRUE(AllReportedSince(then, counts));
}

TEST(HeartbeatCounts, AReportOfManyPartsCountsWhenItIsCompleteAndBeganLateEnough) {
  HeartbeatCounts counts;
  counts[kOne].Add(Part(1, 0, true));
  const HeartbeatCounts then = counts;
  for (uint32_t part = 1; part < 5; ++part) counts[kOne].Add(Part(1, part, part < 4));
  EXPECT_FALSE(AllReportedSince(then, counts)) << "it contains the state before";
  counts[kOne].Add(Part(2, 0, true));
  counts[kOne].Add(Part(2, 0, true));  // repeated
  counts[kOne].Add(Part(2, 1, true));
  counts[kOne].Add(Part(1, 4, false));  // overtaken
  EXPECT_FALSE(AllReportedSince(then, counts));
  counts[kOne].Add(Part(2, 2, false));
  EXPECT_TRUE(AllReportedSince(then, counts));
}

TEST(HeartbeatCounts, EveryServerThatIsStillThereMustReport) {
  HeartbeatCounts counts;
  counts[kOne].Add(Part(1, 0, false));
  counts[kOther].Add(Part(1, 0, false));
  const HeartbeatCounts then = counts;
  for (uint64_t report = 2; report < 4; ++report) counts[kOne].Add(Part(report, 0, false));
  EXPECT_FALSE(AllReportedSince(then, counts));
  counts.erase(kOther);
  EXPECT_TRUE(AllReportedSince(then, counts));
}

}  // namespace
}  // namespace leat::protocol
