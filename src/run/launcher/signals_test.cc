#include "run/launcher/signals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/exit_status.h"

namespace leat::launcher {
namespace {

TEST(LifeWatch, CallsWhenTheOtherEndCloses) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  std::promise<void> ended;
  auto over = ended.get_future();
  const LifeWatch watch(ends[0], [&] { ended.set_value(); });
  ASSERT_EQ(write(ends[1], "x", 1), 1);  // means nothing
  EXPECT_EQ(over.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  close(ends[1]);
  EXPECT_EQ(over.wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

TEST(LifeWatch, EndsBeforeTheOther) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  {
    const LifeWatch watch(ends[0], [] { FAIL() << "nobody has ended"; });
  }
  EXPECT_EQ(fcntl(ends[0], F_GETFD), -1) << "it is closed";
  close(ends[1]);
}

TEST(LifeWatch, NeedsAPipe) {
  EXPECT_THROW(LifeWatch(9999, [] {}), std::invalid_argument);
  const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_THROW(LifeWatch(file, [] {}), std::invalid_argument);
  close(file);
  const LifeWatch nobody(-1, [] { FAIL(); });
}

class AwaitHealingTest : public ::testing::Test {
 protected:
  AwaitHealingTest() { BlockSignals(); }

  std::vector<std::string> said_;
  HealingOptions options_{.on_wait = [this](const std::string& what) { said_.push_back(what); },
                          .first_pause = std::chrono::milliseconds(1),
                          .longest_pause = std::chrono::milliseconds(4)};
};

TEST_F(AwaitHealingTest, WaitsUntilItSucceedsAndSaysWhatForOnce) {
  int attempts = 0;
  const Status status = AwaitHealing(options_, [&]() -> Status {
    if (++attempts < 5) return {Code::kUnavailable, "no broker"};
    if (attempts < 10) Throw({Code::kDeadlineExceeded, "no bucket"});
    return {};
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(attempts, 10);
  EXPECT_EQ(said_, (std::vector<std::string>{"no broker", "no bucket", ""}));
}

TEST_F(AwaitHealingTest, WhatNoRepetitionCuresEndsIt) {
  const Status wrong(Code::kNotFound, "no such topic");
  EXPECT_EQ(AwaitHealing(options_, [&] { return wrong; }), wrong);
  EXPECT_THROW((void)AwaitHealing(options_,
                                  []() -> Status {
                                    Throw({Code::kNotFound, "x"});
                                  }),
               std::invalid_argument);
  EXPECT_TRUE(said_.empty());
}

TEST_F(AwaitHealingTest, ASignalEndsTheWait) {
  options_.first_pause = options_.longest_pause = std::chrono::hours(1);
  options_.on_wait = [](const std::string&) { kill(getpid(), SIGTERM); };
  const Status status = AwaitHealing(options_, []() -> Status {
    return {Code::kUnavailable, "no broker answers"};
  });
  EXPECT_EQ(status, Status(Code::kAborted, "interrupted while it waited for no broker answers"));
}

TEST_F(AwaitHealingTest, ASignalDuringTheFirstAttemptIsNotLost) {
  std::promise<void> came;
  options_.on_signal = [&] { came.set_value(); };
  const Status status = AwaitHealing(options_, [&] {
    kill(getpid(), SIGTERM);
    came.get_future().wait();
    return Status();
  });
  EXPECT_EQ(status, Status(Code::kAborted, "interrupted"));
}

}  // namespace

}  // namespace leat::launcher
