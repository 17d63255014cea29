// The program of tests/system/test_require_all.py: tests that skip, allowed and not, and a test that passes.
#include <gtest/gtest.h>

#include "base/testing.h"

TEST(Skipping, Passes) {}

TEST(Skipping, LacksData) {
  GTEST_SKIP() << "no data here";
}

TEST(Skipping, IsAllowed) {
  GTEST_SKIP() << leat::AllowedSkip("huge-pages");
}

class SkippingFixture : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_SKIP() << "no fixture here"; }
};

TEST_F(SkippingFixture, LacksItsFixture) {
  FAIL() << "not reached";
}
