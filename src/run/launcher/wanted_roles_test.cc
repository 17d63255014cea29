#include "run/launcher/wanted_roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/exit_status.h"

namespace leat::launcher {
namespace {

using Change = WantedRoles::Change;
using Order = WantedRoles::Order;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

report::JobStatus Status(const std::string& phase, const std::string& wanted) {
  return report::StatusFromJson("{\"phase\":\"" + phase + "\",\"wanted\":" + wanted + "}").value();
}

TEST(WantedRoles, AFixedNumberIsStartedOnceAndNeverExceeded) {
  WantedRoles roles;
  const auto two = Status("running", R"({"workers":2,"ps":1})");
  EXPECT_THAT(roles.OnStatus(two), ElementsAre(Order{"ps", 1, true, true}, Order{"worker", 2, true, true}));
  EXPECT_THAT(roles.OnStatus(two), ElementsAre(Order{"ps", 1, false, true}, Order{"worker", 2, false, true}))
      << "one that left on a signal stays away";
  EXPECT_THAT(roles.OnStatus(Status("paused", R"({"workers":4,"ps":1})")),
              ElementsAre(Order{"ps", 1, false, true}, Order{"worker", 4, true, true}));
  EXPECT_THAT(roles.OnStatus(Status("waiting for servers", R"({"workers":4,"ps":1})")), IsEmpty());
  EXPECT_THAT(roles.OnStatus(Status("running", R"({"workers":4,"ps":2})")),
              ElementsAre(Order{"ps", 2, true, true}, Order{"worker", 4, false, true}));
}

TEST(WantedRoles, NobodyIsDrainedBeforeTheJobRuns) {
  WantedRoles roles;
  const char* const wanted = R"({"workers":2,"ps":1})";
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(roles.OnStatus(Status("waiting for servers", wanted)),
                ElementsAre(Order{"ps", 1, true, false}, Order{"worker", 2, true, false}));
  }
  EXPECT_THAT(roles.OnStatus(Status("running", wanted)),
              ElementsAre(Order{"ps", 1, true, true}, Order{"worker", 2, true, true}));
}

TEST(WantedRoles, WhatTheAutoscalerChoosesIsOrderedAgain) {
  WantedRoles roles;
  const auto chosen = Status("running", R"({"workers":3,"range":"2:8","reason":"","ps":1})");
  EXPECT_THAT(roles.OnStatus(chosen),
              ElementsAre(Order{"ps", 1, true, true}, Order{"worker", 3, true, true}));
  EXPECT_THAT(roles.OnStatus(chosen),
              ElementsAre(Order{"ps", 1, false, true}, Order{"worker", 3, true, true}));
  EXPECT_THAT(roles.OnStatus(Status("running", R"({"range":"2:8","reason":"","ps":1})")),
              ElementsAre(Order{"ps", 1, false, true}))
      << "not known yet";
}

// ---- processes

const Order kTwo{"worker", 2, true, true}, kAtMostTwo{"worker", 2, false, true};

TEST(WantedRoles, ProcessesAreStartedWithFreeIndexes) {
  EXPECT_EQ(WantedRoles::ChangeFor(kTwo, {}, {}), (Change{{0, 1}, {}}));
  EXPECT_EQ(WantedRoles::ChangeFor(kTwo, {{11, 1, true}}, {0, 1}), (Change{{2}, {}})) << "0 leaves";
  EXPECT_EQ(WantedRoles::ChangeFor(kAtMostTwo, {{11, 1, true}}, {1}), Change());
}

TEST(WantedRoles, TheLastOnesLeave) {
  EXPECT_EQ(WantedRoles::ChangeFor(kTwo, {{10, 0, true}, {13, 3, true}, {12, 2, true}, {11, 1, true}}, {}),
            (Change{{}, {13, 12}}));
  const Order wait{"worker", 2, true, false};
  EXPECT_EQ(WantedRoles::ChangeFor(wait, {{10, 0, true}, {11, 1, true}, {12, 2, true}}, {}), Change());
}

// A worker was started for a place that one that stood by has taken, since it was ready only then. Or a
// worker was evicted and is coming back, after one that stood by has taken its place.
TEST(WantedRoles, OneWorkerTooManyLeavesWheneverItIsFound) {
  EXPECT_EQ(WantedRoles::ChangeFor(kAtMostTwo, {{10, 0, true}, {20, 0, true}, {11, 1, false}}, {}),
            (Change{{}, {11}}));
  EXPECT_EQ(WantedRoles::ChangeFor(kAtMostTwo, {{10, 0, false}, {20, 0, true}, {11, 1, true}}, {}),
            (Change{{}, {10}}))
      << "it is no member, and has nothing to hand over";
  EXPECT_EQ(WantedRoles::ChangeFor(kAtMostTwo, {{10, 0, true}, {11, 1, true}}, {}), Change());
}

TEST(WantedRoles, NothingIsOrderedWhenTheJobEndsOrSaysNothing) {
  WantedRoles roles;
  for (const char* phase : {"stopping", "ended"})
    EXPECT_THAT(roles.OnStatus(Status(phase, R"({"workers":2,"ps":1})")), IsEmpty());
  for (const char* text : {"{}", R"({"phase":"running"})", R"({"phase":"running","wanted":3})",
                           R"({"phase":"running","wanted":{"workers":"2","ps":-1}})"})
    EXPECT_THAT(roles.OnStatus(report::StatusFromJson(text).value()), IsEmpty()) << text;
}

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
