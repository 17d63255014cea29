// The all-reduce group of a former coordinator.
#include "protocol/allreduce/member_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

using GroupPhase = GroupCoordinator::Phase;

constexpr uint64_t kFormer = 10;
constexpr Time kNow{std::chrono::seconds(1)};

class RestoredGroup : public ::testing::Test {
 protected:
  RestoredGroup() : groups_({.workers = 2}) {
    std::vector<Member> members;
    for (uint32_t i = 0; i < 2; ++i) {
      members.push_back({.node = NodeId(i + 1), .role = Role::kWorker, .index = i, .address = "here"});
      groups_.Join(kNow, members.back());
    }
    groups_.Restore(kFormer, std::move(members));
  }
  static MemberReport At(uint64_t step) {
    MemberReport report;
    report.group = kFormer;
    report.holds = report.connected = report.started = true;
    report.step = step;
    return report;
  }
  bool Step() {
    return groups_.Advance(kNow, [this] { return ++last_id_; });
  }
  void ExpectAnother() {
    EXPECT_TRUE(Step());
    EXPECT_EQ(groups_.current()->id, kFormer + 1);
    EXPECT_FALSE(groups_.current()->decided);
  }

  GroupCoordinator groups_;
  uint64_t last_id_ = kFormer;
};

TEST_F(RestoredGroup, GoesOnFromTheLowestStepOnceAllOfItHasReported) {
  EXPECT_FALSE(Step());
  groups_.Report(kNow, NodeId(1), At(6));
  EXPECT_FALSE(Step());
  EXPECT_EQ(groups_.phase(), GroupPhase::kGathering);
  groups_.Report(kNow, NodeId(2), At(5));
  EXPECT_TRUE(Step());
  EXPECT_EQ(groups_.phase(), GroupPhase::kRunning);
  ASSERT_TRUE(groups_.current());
  EXPECT_EQ(groups_.current()->id, kFormer);
  EXPECT_TRUE(groups_.current()->decided);
  EXPECT_EQ(groups_.current()->step, 5u);
  EXPECT_FALSE(groups_.from_source());
  EXPECT_FALSE(Step());
}

TEST_F(RestoredGroup, WaitsForAReportOfThisGroup) {
  groups_.Report(kNow, NodeId(1), At(6));
  auto earlier = At(5);
  earlier.group = kFormer - 1;
  groups_.Report(kNow, NodeId(2), earlier);
  EXPECT_FALSE(Step());
  EXPECT_EQ(groups_.phase(), GroupPhase::kGathering);
}

// It may be at the step that the group was to start from, or at an earlier one.
TEST_F(RestoredGroup, EndsIfAMemberHasNotStarted) {
  groups_.Report(kNow, NodeId(1), At(5));
  auto filling = At(5);
  filling.started = false;
  groups_.Report(kNow, NodeId(2), filling);
  ExpectAnother();
  // It starts from the highest step that is held.
  for (uint64_t node : {1, 2}) {
    auto report = At(node == 1 ? 5 : 3);
    report.group = kFormer + 1;
    groups_.Report(kNow, NodeId(node), report);
  }
  EXPECT_TRUE(Step());
  EXPECT_EQ(groups_.current()->step, 5u);
  EXPECT_EQ(groups_.current()->holder, NodeId(1));
}

TEST_F(RestoredGroup, EndsIfAMemberIsOlderThanTheNewestCheckpoint) {
  groups_.SetSource(kNow, 6);
  groups_.Report(kNow, NodeId(1), At(6));
  groups_.Report(kNow, NodeId(2), At(5));
  ExpectAnother();
}

TEST_F(RestoredGroup, EndsIfAMemberIsLostAfterItsReport) {
  groups_.Report(kNow, NodeId(2), At(5));
  groups_.Remove(kNow, NodeId(2));
  groups_.Report(kNow, NodeId(1), At(5));
  ExpectAnother();
  EXPECT_EQ(groups_.current()->members.size(), 1u);
}

}  // namespace
}  // namespace leat::protocol
