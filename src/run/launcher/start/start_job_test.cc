#include "run/launcher/start/start_job.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "base/testing.h"

namespace leat::launcher {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(StuckWatch, AProcessThatWorksForAnHourIsNotStuck) {
  const Time start{};
  StuckWatch watch({}, start);
  // A checkpoint on a slow disk: one percent of a processor.
  for (int second = 0; second <= 3600; ++second)
    ASSERT_FALSE(watch.IsStuck(start + seconds(second), milliseconds(10 * second))) << second;
}

TEST(StuckWatch, AProcessThatOnlyHasTimersIsStuck) {
  const Time start{};
  StuckWatch watch({}, start);
  EXPECT_FALSE(watch.IsStuck(start + seconds(1), milliseconds(500))) << "it has begun";
  for (int second = 2; second < 121; ++second)
    ASSERT_FALSE(
        watch.IsStuck(start + seconds(second), milliseconds(500) + second * std::chrono::microseconds(100)));
  EXPECT_TRUE(watch.IsStuck(start + seconds(121), milliseconds(513)));
}

TEST(StuckWatch, OneThatSpeaksIsNotStuck) {
  const Time start{};
  StuckWatch watch({}, start);
  watch.Restart(start + minutes(2), milliseconds(50));
  EXPECT_FALSE(watch.IsStuck(start + minutes(3), milliseconds(60)));
  EXPECT_TRUE(watch.IsStuck(start + minutes(4), milliseconds(149)));
}

TEST(CpuTimeOf, OfAnotherProcess) {
  const pid_t parent = getpid();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    while (getppid() == parent) {
    }
    _exit(0);
  }
  EXPECT_TRUE(WaitFor([&] { return CpuTimeOf(child) >= milliseconds(100); }));
  kill(child, SIGSTOP);
  int status = 0;
  waitpid(child, &status, WUNTRACED);
  // A stopped child is reported before it has left its processor.
  Duration used = CpuTimeOf(child);
  EXPECT_TRUE(WaitFor([&] {
    const Duration before = used;
    used = CpuTimeOf(child);
    return used == before;
  }));
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  EXPECT_EQ(CpuTimeOf(child), Duration::zero());
}

TEST(Ready, ReadsLinesHoweverTheyAreCut) {
  const std::string all = WaitsLine("brokers") + WaitsLine("a\nbucket") + "10.0.0.1:4000\n";
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    std::string rest, waits, address;
    for (const std::string& part : {all.substr(0, cut), all.substr(cut)}) {
      const ReadyNews news = TakeReady(part, &rest);
      if (news.waits) waits = *news.waits;
      if (!news.address.empty()) address = news.address;
    }
    EXPECT_EQ(waits, "a bucket") << cut;
    EXPECT_EQ(address, "10.0.0.1:4000") << cut;
    EXPECT_EQ(rest, "") << cut;
  }
}

TEST(Ready, ALongTextStaysOneLineThatIsRead) {
  std::string rest;
  const std::string line = WaitsLine(std::string(100'000, 'x'));
  EXPECT_EQ(TakeReady(line, &rest).waits.value_or("").size(), 1000u);
  EXPECT_EQ(TakeReady(WaitsLine(""), &rest).waits, "") << "for nothing any more";
  EXPECT_EQ(TakeReady("127.0.0.1:1\n", &rest).address, "127.0.0.1:1");
}

TEST(Ready, NoEndOfLineGrowsForEver) {
  std::string rest;
  for (int i = 0; i < 1000; ++i) TakeReady(std::string(1000, 'x'), &rest);
  EXPECT_LT(rest.size(), 10'000u);
}

}  // namespace

}  // namespace leat::launcher
