#include "run/roles/recording/group_wait.h"

#include <gtest/gtest.h>

namespace leat::roles {
namespace {

using std::chrono::seconds;

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

}  // namespace
}  // namespace leat::roles
