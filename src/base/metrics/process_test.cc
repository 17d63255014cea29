#include "base/metrics/metrics.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

namespace leat::metrics {
namespace {

TEST(Process, TimeOfThisProcessGrowsWithWork) {
  const double before = *CpuSeconds();
  volatile uint64_t x = 1;
  while (*CpuSeconds() < before + 0.01) x = x * 3 + 1;
  EXPECT_GT(*CpuSeconds(getpid()), before);
}

TEST(Process, OtherProcessesAreSeenUntilWaitedFor) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) pause();
  }
  EXPECT_TRUE(CpuSeconds(child).ok());
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_TRUE(CpuSeconds(child).ok());
  waitpid(child, nullptr, 0);
  EXPECT_EQ(CpuSeconds(child).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace leat::metrics
