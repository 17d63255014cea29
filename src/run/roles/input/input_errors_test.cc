#include "run/roles/input/input_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job/testing.h"

namespace leat::roles {
namespace {

using ::testing::HasSubstr;

constexpr Duration kReadTimeout = std::chrono::seconds(5);

// After how long a worker gives up, if it is told of the error twice a second.
Duration GivesUpAfter(Code code) {
  protocol::WorkerProgress progress;
  InputErrors errors(job::Job::FromText(job::kSmallJob, "job"), kReadTimeout, &progress);
  const Time began{std::chrono::seconds(1000)};
  for (Time now = began; now < began + std::chrono::hours(1); now += errors.retry_interval()) {
    const Status status = errors.OnUnreadable(now, 7, Status(code, "partition 1"));
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(status.message(), HasSubstr("the stream cannot be read: partition 1"));
    EXPECT_EQ(progress.last_dead_letter, Status(code, "partition 1").ToString());
    return now - began;
  }
  return Duration::max();
}

TEST(InputErrors, BrokersHaveMinutesToComeBack) {
  const Duration interval = kReadTimeout / 10;
  EXPECT_EQ(GivesUpAfter(Code::kDataLoss), kReadTimeout + interval);
  EXPECT_EQ(GivesUpAfter(Code::kNotFound), kReadTimeout + interval);
  EXPECT_EQ(GivesUpAfter(Code::kInternal), 6 * kReadTimeout + interval);
  EXPECT_EQ(GivesUpAfter(Code::kPermissionDenied), 6 * kReadTimeout + interval);
  for (const Code code : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kResourceExhausted})
    EXPECT_EQ(GivesUpAfter(code), 60 * kReadTimeout + interval) << CodeName(code);
}

TEST(InputErrors, ASplitThatIsReadEndsTheWait) {
  protocol::WorkerProgress progress;
  InputErrors errors(job::Job::FromText(job::kSmallJob, "job"), kReadTimeout, &progress);
  const Status why(Code::kDataLoss, "partition 1");
  const Time began{std::chrono::seconds(1000)};
  EXPECT_TRUE(errors.OnUnreadable(began, 7, why).ok());
  EXPECT_TRUE(errors.OnSplit(PreparedSplit()).ok());
  EXPECT_TRUE(errors.OnUnreadable(began + 2 * kReadTimeout, 7, why).ok());
  EXPECT_FALSE(errors.OnUnreadable(began + 4 * kReadTimeout, 7, why).ok());
}

}  // namespace
}  // namespace leat::roles
