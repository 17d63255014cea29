#include "checkpoint_cut.h"

#include <gtest/gtest.h>

namespace leat::power_cut {
namespace {

void ExpectSafe(const std::string& strategy) {
  const CutReport report = CutCheckpoints(strategy);
  EXPECT_EQ(report.wrong, "") << strategy;
  EXPECT_EQ(report.checkpoints, 6u);
  EXPECT_GT(report.operations, 100u);
  EXPECT_GT(report.disks, report.operations / 4);
}

TEST(CheckpointCut, TheNewestCompleteCheckpointLoadsAfterEveryOperation) {
  ExpectSafe("async");
}

TEST(CheckpointCutLong, TheNewestCompleteCheckpointLoadsAfterEveryOperation) {
  for (const char* strategy : {"sync", "averaging", "allreduce"}) ExpectSafe(strategy);
}

}  // namespace
}  // namespace leat::power_cut
