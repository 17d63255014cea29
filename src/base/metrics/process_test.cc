#include "base/metrics/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

namespace leat::metrics {
namespace {

TEST(Process, TimeOfThisProcessGrowsWithWork) {
  const double before = *CpuSeconds();
  volatile uint64_t x = 1;
  while (*CpuSeconds() < before + 0.01) x = x * 3 + 1;
  EXPECT_GT(*CpuSeconds(getpid()), before);
}

TEST(Process, MemoryOfThisProcessGrowsWithTouchedPages) {
  const auto before = *MemoryOf();
  EXPECT_GT(before.rss_bytes, 1u << 20);
  EXPECT_GE(before.peak_rss_bytes, before.rss_bytes);
  EXPECT_GT(before.pss_bytes, 0u);
  EXPECT_LE(before.pss_bytes, before.rss_bytes + (4 << 20));
  const std::vector<char> pages(32 << 20, 'x');
  EXPECT_GT(MemoryOf()->rss_bytes, before.rss_bytes + (24 << 20));
  EXPECT_GT(pages.size(), 0u);
}

TEST(Process, OtherProcessesAreSeenUntilWaitedFor) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (;;) pause();
  }
  EXPECT_TRUE(CpuSeconds(child).ok());
  EXPECT_GT(MemoryOf(child)->rss_bytes, 0u);
  kill(child, SIGKILL);
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(MemoryOf(child)->rss_bytes, 0u);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(CpuSeconds(child).status().code(), Code::kNotFound);
  EXPECT_EQ(MemoryOf(child).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace leat::metrics
