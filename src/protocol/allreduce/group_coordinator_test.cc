#include "protocol/allreduce/member_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const NodeId kFirst{1}, kSecond{2}, kThird{3};

class GroupCoordinatorTest : public ::testing::Test {
 protected:
  GroupCoordinatorTest() {
    for (const NodeId node : {kFirst, kSecond, kThird}) {
      coordinator_.Join(now_, {node, Role::kWorker, static_cast<uint32_t>(node.value - 1), "host"},
                        100 + node.value);
    }
    Pass(std::chrono::seconds(1));
  }

  void Pass(Duration time) {
    for (const Time until = now_ + time; now_ < until; now_ += std::chrono::milliseconds(10))
      coordinator_.Advance(now_, [this] { return ++last_id_; });
  }
  void Report(NodeId node, uint64_t step, const std::string& failure = "",
              const std::vector<NodeId>& unreachable = {}) {
    MemberReport report;
    report.group = coordinator_.current()->id;
    report.holds = report.connected = true;
    report.step = step;
    report.failure = failure;
    coordinator_.Report(now_, node, report, unreachable);
  }
  // The current group starts, and all its members have made this step.
  void Train(uint64_t step) {
    for (int i = 0; i < 3; ++i) {
      for (const NodeId node : {kFirst, kSecond, kThird})
        Report(node, i < 2 ? coordinator_.current()->step : step);
      Pass(std::chrono::milliseconds(20));
    }
    ASSERT_EQ(coordinator_.phase(), GroupCoordinator::Phase::kRunning);
  }
  // A and B have lost each other at this step; another group is formed.
  void Fail(uint64_t step) {
    Report(kThird, step);
    Report(kSecond, step, "A is silent", {kFirst});
    Report(kFirst, step, "B is silent", {kSecond});
    Pass(std::chrono::milliseconds(500));
  }

  Time now_{std::chrono::seconds(100)};
  uint64_t last_id_ = 0;
  GroupCoordinator coordinator_{{.workers = 3}};
};

TEST_F(GroupCoordinatorTest, APairIsNamedWhenItLosesEachOtherWhateverWasTrainedBefore) {
  Train(7);
  EXPECT_THAT(coordinator_.Unreachable(), IsEmpty());
  Fail(7);
  EXPECT_THAT(coordinator_.Unreachable(), ElementsAre(std::pair(kFirst, kSecond)));
  EXPECT_THAT(coordinator_.TakeExcluded(), IsEmpty()) << "it may have been for a moment";
  // The second group in a row.
  Fail(7);
  EXPECT_THAT(coordinator_.TakeExcluded(), ElementsAre(kSecond));
}

TEST_F(GroupCoordinatorTest, APairThatTrainsAgainIsForgotten) {
  Train(7);
  Fail(7);
  Train(8);
  EXPECT_THAT(coordinator_.Unreachable(), IsEmpty());
  Fail(8);
  EXPECT_THAT(coordinator_.Unreachable(), ElementsAre(std::pair(kFirst, kSecond)));
  EXPECT_THAT(coordinator_.TakeExcluded(), IsEmpty()) << "not two groups in a row";
}

}  // namespace
}  // namespace leat::protocol
