#include "net/connection_base.h"

#include <gtest/gtest.h>

namespace leat::net {
namespace {

using std::chrono::milliseconds;

TEST(StallCheck, WhatDoesNotMoveForTheTimeoutHasStalled) {
  StallCheck check(milliseconds(100));
  EXPECT_EQ(check.interval(), milliseconds(25));
  const Time moved = milliseconds(1000);
  for (int at : {1025, 1050, 1075}) EXPECT_FALSE(check.Stalled(milliseconds(at), moved)) << at;
  EXPECT_FALSE(check.Stalled(milliseconds(1099), moved));
  EXPECT_TRUE(check.Stalled(milliseconds(1100), moved));
}

TEST(StallCheck, WhatMovesHasNot) {
  StallCheck check(milliseconds(100));
  for (int at = 1000; at < 5000; at += 99)
    EXPECT_FALSE(check.Stalled(milliseconds(at + 98), milliseconds(at))) << at;
}

TEST(StallCheck, APauseIsOneCheck) {
  StallCheck check(milliseconds(100));
  const Time moved = milliseconds(1000);
  EXPECT_FALSE(check.Stalled(milliseconds(1025), moved));
  EXPECT_FALSE(check.Stalled(milliseconds(61'000), moved)) << "a minute later";
  EXPECT_FALSE(check.Stalled(milliseconds(61'025), moved));
  EXPECT_TRUE(check.Stalled(milliseconds(61'050), moved)) << "there was time enough to go on";
}

}  // namespace
}  // namespace leat::net
