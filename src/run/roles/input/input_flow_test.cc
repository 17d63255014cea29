#include "run/roles/input/input_flow.h"

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

}  // namespace
}  // namespace leat::roles
