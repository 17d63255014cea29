#include "show/report/display.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::report {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Optional;

JobStatus Saving(uint64_t mebibytes, const std::string& what = "the shards of ps 0") {
  JobStatus status;
  status.saving = {.checkpoint = 7, .bytes = mebibytes << 20, .waiting_for = what, .limit_s = 100};
  return status;
}

TEST(AdminWait, WaitsAsLongAsTheCheckpointGrows) {
  Time now = seconds(5);
  AdminWait wait(now);
  for (uint64_t i = 0; i < 2000; ++i, now += seconds(1)) {
    EXPECT_THAT(wait.OnStatus(now, Saving(i)), Optional("checkpoint 7: " + std::to_string(i) +
                                                        " MiB saved, waiting for the shards of ps 0"));
    ASSERT_TRUE(wait.Check(now).ok()) << i;
  }
}

TEST(AdminWait, GivesUpAfterTheLimitOfACheckpointThatStands) {
  Time now{};
  AdminWait wait(now);
  const Duration limit = seconds(100) + AdminWait::kPatience;
  EXPECT_TRUE(wait.OnStatus(now, Saving(412)));
  for (; now < limit; now += seconds(1)) {
    wait.OnStatus(now, Saving(412));
    ASSERT_TRUE(wait.Check(now).ok()) << Seconds(now);
  }
  EXPECT_FALSE(wait.OnStatus(now, Saving(412))) << "the user knows that";
  EXPECT_EQ(wait.Check(now).code(), Code::kDeadlineExceeded);
  EXPECT_EQ(wait.Check(now).message(),
            "checkpoint 7 (412 MiB saved) has made no progress for 280 s and goes on without this command, "
            "waiting for the shards of ps 0");
}

TEST(AdminWait, AnotherStageIsProgress) {
  Time now{};
  AdminWait wait(now);
  wait.OnStatus(now, Saving(412));
  now += seconds(270);
  EXPECT_TRUE(wait.OnStatus(now, Saving(412, "its manifest")));
  now += seconds(270);
  wait.OnStatus(now, Saving(412, "its manifest"));
  EXPECT_TRUE(wait.Check(now).ok());
}

TEST(AdminWait, SaysWhatAJobWaitsForThatDoesNotEnd) {
  Time now{};
  AdminWait wait(now);
  JobStatus status;
  status.waiting_for = "space for the journal";
  for (; now <= AdminWait::kPatience; now += seconds(1)) EXPECT_FALSE(wait.OnStatus(now, status));
  EXPECT_THAT(wait.Check(now).message(), HasSubstr("waiting for space for the journal"));
}

TEST(AdminWait, ACoordinatorThatIsSilentEndsTheWait) {
  Time now{};
  AdminWait never(now);
  never.OnSilence({Code::kUnavailable, "10.0.0.5:4000: refused"});
  EXPECT_TRUE(never.Check(AdminWait::kSilence - seconds(1)).ok());
  EXPECT_EQ(never.Check(AdminWait::kSilence).message(), "10.0.0.5:4000: refused");

  AdminWait lost(now);
  lost.OnStatus(now, Saving(412));
  lost.OnSilence({Code::kUnavailable, "10.0.0.5:4000: refused"});
  EXPECT_EQ(lost.Check(AdminWait::kSilence).code(), Code::kUnavailable);
  EXPECT_THAT(lost.Check(AdminWait::kSilence).message(),
              HasSubstr("checkpoint 7 (412 MiB saved) was waiting for the shards of ps 0"));
}

TEST(AdminWait, ALimitThatNobodyCouldWaitForIsCutOff) {
  for (const double limit : {1e300, -1e300}) {
    AdminWait wait(Time{});
    const auto check = [&](Time now) {
      JobStatus status;
      status.saving = {.checkpoint = 7, .limit_s = limit};
      wait.OnStatus(now, status);
      return wait.Check(now).code();
    };
    EXPECT_EQ(check(seconds(0)), Code::kOk) << limit;
    EXPECT_EQ(check(AdminWait::kPatience - seconds(1)), Code::kOk) << limit;
    EXPECT_EQ(check(seconds(2'000'000)), Code::kDeadlineExceeded) << limit;
  }
}

TEST(AdminWait, AStatusThatIsNoneIsIgnored) {
  AdminWait wait(Time{});
  for (const char* text : {"", "[]", "{"}) EXPECT_FALSE(StatusFromJson(text).ok()) << text;
  for (const char* text : {R"({"saving":3})", R"({"saving":null,"waiting_for":4})"})
    EXPECT_FALSE(wait.OnStatus(Time{}, StatusFromJson(text).value())) << text;
  const auto status = StatusFromJson(R"({"saving":{"checkpoint":-1,"bytes":"x","limit_s":[]}})");
  wait.OnStatus(Time{}, *status);
  EXPECT_TRUE(wait.Check(Time{}).ok());
}

}  // namespace
}  // namespace leat::report
