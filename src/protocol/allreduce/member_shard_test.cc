#include "protocol/allreduce/group_member.h"

#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

CheckpointOrder Order(uint64_t id, uint64_t version) {
  CheckpointOrder order;
  order.id = id;
  order.version = version;
  return order;
}

class MemberShardTest : public ::testing::Test {
 protected:
  MemberShardTest() {
    group_.id = 7;
    group_.members.resize(2);
  }

  const SliceTable table_{1, {{"v", Shape{4}, {}}}, {{0, 0, 1}, {0, 1, 2}, {0, 2, 3}, {0, 3, 4}}};
  const Allocate allocate_;
  GroupMemberActions actions_;
  MemberShard shard_{table_, allocate_, actions_};
  TrainingState held_{table_, {}, {}, nullptr};
  Group group_;
};

TEST_F(MemberShardTest, IsSavedAtItsStepAndReportedWhenItIsThere) {
  shard_.TakeOrder(Order(3, 1));
  EXPECT_FALSE(shard_.Save(held_, group_, 0)) << "not at the step yet";
  EXPECT_TRUE(actions_.empty());
  held_.Complete(10);
  EXPECT_FALSE(shard_.Save(held_, group_, 0));
  ASSERT_EQ(actions_.size(), 1u);
  EXPECT_EQ(std::get<SaveShard>(actions_[0]).slices.size(), shard_.SlicesOf(group_, 0).size());
  ShardReport other;
  other.checkpoint = 2;
  EXPECT_FALSE(shard_.OnSaved(other));
  ShardReport report;
  report.checkpoint = 3;
  EXPECT_TRUE(shard_.OnSaved(report));
  EXPECT_EQ(shard_.report()->slices.size(), shard_.SlicesOf(group_, 0).size());
  shard_.TakeOrder(Order(3, 1));
  EXPECT_FALSE(shard_.Save(held_, group_, 0)) << "an order is obeyed once";
  EXPECT_EQ(actions_.size(), 1u);
  shard_.Void();
  EXPECT_FALSE(shard_.report());
}

TEST_F(MemberShardTest, AnOrderOfAnEarlierStepFails) {
  held_.Complete(10);
  shard_.TakeOrder(Order(3, 0));
  EXPECT_TRUE(shard_.Save(held_, group_, 0));
  EXPECT_TRUE(actions_.empty());
  EXPECT_EQ(shard_.report()->status.code(), Code::kFailedPrecondition);
}

TEST_F(MemberShardTest, OfAMemberWithoutSlicesIsCompleteAtOnce) {
  group_.members.resize(9);
  shard_.TakeOrder(Order(3, 0));
  EXPECT_TRUE(shard_.Save(held_, group_, 8));
  EXPECT_TRUE(actions_.empty());
  EXPECT_TRUE(shard_.report()->status.ok());
}

}  // namespace
}  // namespace leat::protocol
