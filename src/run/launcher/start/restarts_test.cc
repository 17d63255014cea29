#include "run/launcher/start/restarts.h"

#include <gtest/gtest.h>

#include <chrono>

#include "base/exit_status.h"

namespace leat::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(RestartsTest, ACrashIsRepeatedSomeTimesWithoutProgress) {
  Restarts restarts;
  const ProcessEnd crash{.name = "worker-0", .exit_code = ExitStatus::kSignal + 11};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(restarts.MayRestart(crash, false)) << i;
  EXPECT_FALSE(restarts.MayRestart(crash, false));
  restarts.OnProgress([](const std::string&) { return false; });
  EXPECT_TRUE(restarts.MayRestart(crash, false));
}

TEST(RestartsTest, PausesGrowUntilTheProcessIsPartOfTheProgress) {
  Restarts restarts;
  EXPECT_EQ(restarts.PauseBefore("ps-0", true), Duration::zero());
  EXPECT_EQ(restarts.PauseBefore("ps-0", false), milliseconds(500));
  EXPECT_EQ(restarts.PauseBefore("ps-0", false), seconds(1));
  restarts.OnProgress([](const std::string& name) { return name == "ps-0"; });
  EXPECT_EQ(restarts.PauseBefore("ps-0", false), seconds(2)) << "it still waits for its start";
  restarts.OnProgress([](const std::string&) { return false; });
  EXPECT_EQ(restarts.PauseBefore("ps-0", false), milliseconds(500));
  for (int i = 0; i < 20; ++i) (void)restarts.PauseBefore("ps-0", false);
  EXPECT_EQ(restarts.PauseBefore("ps-0", false), seconds(10));
}

TEST(RestartsTest, SaysHowAProcessHasEnded) {
  EXPECT_EQ(HowEnded({.exit_code = ExitStatus::kSignal + 9, .last_error = "an old one"}), "ended (signal 9)");
  EXPECT_EQ(HowEnded({.exit_code = 1, .last_error = "no room"}), "ended (status 1: no room)");
}

}  // namespace
}  // namespace leat::launcher
