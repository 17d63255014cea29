// Linked without one of the calls that make files durable. The property of checkpoint_cut_test must then
// fail, otherwise the test proves nothing.
#include <gtest/gtest.h>

#include "checkpoint_cut.h"

namespace leat::power_cut {
namespace {

TEST(MutantCut, AProgramThatDoesNotSyncLosesCheckpoints) {
  const CutReport report = CutCheckpoints("async");
  EXPECT_NE(report.wrong, "");
  std::printf("found: %s\n", report.wrong.c_str());
}

}  // namespace
}  // namespace leat::power_cut
