#include "run/launcher/start/await_healing.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "base/exit_status.h"
#include "run/launcher/signals.h"

namespace leat::launcher {
namespace {

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
