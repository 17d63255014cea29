#include "run/roles/training/training_role.h"

#include <gtest/gtest.h>

namespace leat::roles {
namespace {

using std::chrono::seconds;

TEST(InputFlowTest, AWaitIsReportedWhileItLasts) {
  protocol::WorkerProgress progress;
  InputFlow flow(&progress);
  const auto reported = [&](Time now) {
    protocol::WorkerProgress report = progress;
    flow.AddRunningWait(now, &report);
    return report.input_wait_seconds;
  };
  EXPECT_EQ(reported(seconds(1)), 0);
  flow.OnReady(seconds(2), 0, true);
  EXPECT_EQ(reported(seconds(3)), 0) << "it waits for something else";
  flow.OnReady(seconds(3), 0, false);
  flow.OnReady(seconds(4), 0, false);
  EXPECT_EQ(reported(seconds(5)), 2);
  EXPECT_EQ(progress.input_wait_seconds, 0);
  flow.OnReady(seconds(6), 1, false);
  EXPECT_EQ(progress.input_wait_seconds, 3);
  EXPECT_EQ(reported(seconds(9)), 3);
}

TEST(InputFlowTest, SplitsAreCountedWithTheTimeOfDecoding) {
  protocol::WorkerProgress progress;
  InputFlow flow(&progress);
  PreparedSplit split;
  split.bytes = 100;
  split.expired = 3;
  split.decoding = std::chrono::milliseconds(250);
  flow.OnSplit(split);
  flow.OnSplit(split);
  EXPECT_EQ(progress.input_bytes, 200u);
  EXPECT_EQ(progress.lost_to_retention, 6u);
  EXPECT_EQ(progress.decode_seconds, 0.5);
}

TEST(GroupWait, OfAGroupThatIsLeftCountsOnce) {
  protocol::WorkerProgress progress;
  GroupWait wait(&progress);
  EXPECT_EQ(wait.End(seconds(1)), std::nullopt);
  wait.Begin(seconds(10));
  auto report = progress;
  wait.AddRunningWait(seconds(12), &report);
  EXPECT_EQ(report.wait_seconds, 2);
  EXPECT_EQ(progress.wait_seconds, 0);
  EXPECT_EQ(wait.End(seconds(13)), Time(seconds(10))) << "the group is left";
  EXPECT_EQ(progress.wait_seconds, 3);
  report = progress;
  wait.AddRunningWait(seconds(20), &report);
  EXPECT_EQ(report.wait_seconds, 3) << "until the next reduction nobody is waited for";
  EXPECT_EQ(wait.End(seconds(21)), std::nullopt);
  wait.Begin(seconds(30));
  wait.End(seconds(31));
  EXPECT_EQ(progress.wait_seconds, 4);
}

TEST(ServerWaits, EachServerIsCountedUntilItAnswers) {
  net::Loop loop;
  timeline::Recorder recorder;
  protocol::WorkerProgress progress;
  ServerWaits waits(loop, &progress, recorder.MakeTrack("compute"));
  protocol::View view;
  view.members = {{NodeId(7), protocol::Role::kServer, 1, ""}, {NodeId(8), protocol::Role::kServer, 0, ""}};
  waits.End(NodeId(7), view);
  EXPECT_TRUE(progress.server_waits.empty()) << "it was not asked";
  waits.Begin(NodeId(7));
  waits.Begin(NodeId(8));
  waits.Begin(NodeId(9));
  waits.End(NodeId(7), view);
  waits.End(NodeId(8), view);
  EXPECT_TRUE(waits.any());
  EXPECT_EQ(progress.wait_seconds, 0) << "the wait for the last one counts";
  waits.End(NodeId(9), view);
  EXPECT_FALSE(waits.any());
  ASSERT_EQ(progress.server_waits.size(), 2u) << "a server that is not in the view has no number";
  EXPECT_EQ(progress.server_waits[0].ps, 0u);
  EXPECT_EQ(progress.server_waits[1].ps, 1u);
  EXPECT_GE(progress.wait_seconds, progress.server_waits[1].seconds);
}

}  // namespace
}  // namespace leat::roles
