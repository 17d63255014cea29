#include "net/loop.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "net/poller.h"
#include "net/testing.h"

namespace leat::net {
namespace {

using std::chrono::milliseconds;
using testing::RunUntil;

TEST(LoopTest, PostedWorkRunsInOrderAndNotFromWithinPost) {
  Loop loop;
  std::vector<int> ran;
  loop.Post([&] {
    ran.push_back(1);
    loop.Post([&] { ran.push_back(3); });
    ran.push_back(2);
  });
  EXPECT_TRUE(ran.empty());
  ASSERT_TRUE(RunUntil(loop, [&] { return ran.size() == 3; }));
  EXPECT_EQ(ran, (std::vector{1, 2, 3}));
}

TEST(LoopTest, TimersRunInTheirOrderAndNotBeforeTheirTime) {
  Loop loop;
  std::vector<int> ran;
  const Time begin = loop.Now();
  loop.After(milliseconds(20), [&] {
    EXPECT_GE(loop.Now() - begin, milliseconds(20));
    ran.push_back(2);
  });
  loop.After(milliseconds(10), [&] {
    EXPECT_GE(loop.Now() - begin, milliseconds(10));
    ran.push_back(1);
  });
  loop.After({}, [&] { ran.push_back(0); });
  ASSERT_TRUE(RunUntil(loop, [&] { return ran.size() == 3; }));
  EXPECT_EQ(ran, (std::vector{0, 1, 2}));
}

TEST(LoopTest, ACancelledTimerDoesNotRun) {
  Loop loop;
  bool ran = false;
  const uint64_t timer = loop.After({}, [&] { ran = true; });
  loop.Cancel(timer);
  loop.Cancel(timer);
  loop.Cancel(0);
  bool later = false;
  loop.After(milliseconds(1), [&] { later = true; });
  ASSERT_TRUE(RunUntil(loop, [&] { return later; }));
  EXPECT_FALSE(ran);
}

TEST(LoopTest, ATimerMayCancelAnotherThatIsDue) {
  Loop loop;
  bool second = false;
  uint64_t other = 0;
  loop.After({}, [&] { loop.Cancel(other); });
  other = loop.After({}, [&] { second = true; });
  bool later = false;
  loop.After(milliseconds(2), [&] { later = true; });
  ASSERT_TRUE(RunUntil(loop, [&] { return later; }));
  EXPECT_FALSE(second);
}

TEST(LoopTest, TimersThatAddTimersDoNotKeepTheLoop) {
  Loop loop;
  int ran = 0;
  std::function<void()> again = [&] {
    ++ran;
    loop.After({}, again);
  };
  again();
  for (int i = 1; i <= 5; ++i) {
    loop.RunOnce(milliseconds(100));
    EXPECT_LE(ran, 1 + i);
  }
}

TEST(LoopTest, WorkFromOtherThreadsWakesIt) {
  Loop loop;
  std::atomic<int> ran{0};
  std::thread runner([&] { loop.Run(); });
  std::vector<std::thread> posters;
  for (int t = 0; t < 3; ++t) {
    posters.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) loop.Post([&] { ++ran; });
    });
  }
  for (auto& poster : posters) poster.join();
  loop.Post([&] { loop.Stop(); });  // after all others
  runner.join();
  EXPECT_EQ(ran, 3000);
  EXPECT_FALSE(loop.RunOnce(milliseconds(1))) << "stopped stays stopped";
}

TEST(LoopTest, StopFromAnotherThreadEndsAWait) {
  Loop loop;
  std::thread runner([&] { loop.Run(); });
  loop.Stop();
  runner.join();
}

// A ready descriptor, and what its callback does.
struct Ready final : Watcher {
  Ready() { EXPECT_EQ(pipe(ends), 0); }
  ~Ready() {
    close(ends[0]);
    close(ends[1]);
  }
  void Fill() { ASSERT_EQ(write(ends[1], "x", 1), 1); }
  void OnReady(bool, bool) override {
    ++told;
    if (then) then();
  }
  int ends[2];
  int told = 0;
  std::function<void()> then;
};

TEST(LoopTest, AWatcherRemovedInThisIterationIsNotNotifiedNorIsItsSuccessor) {
  Loop loop;
  Ready first, second, third;  // third has nothing to read
  first.Fill();
  second.Fill();
  uint64_t keys[2] = {loop.impl().Watch(first.ends[0], true, false, &first),
                      loop.impl().Watch(second.ends[0], true, false, &second)};
  // The first to be notified unwatches the other, and the third reuses its slot.
  first.then = [&] {
    loop.impl().Unwatch(keys[1]);
    loop.impl().Watch(third.ends[0], true, false, &third);
  };
  second.then = [&] {
    loop.impl().Unwatch(keys[0]);
    loop.impl().Watch(third.ends[0], true, false, &third);
  };
  loop.RunOnce(milliseconds(100));
  EXPECT_EQ(first.told + second.told, 1);
  EXPECT_EQ(third.told, 0);
}

TEST(LoopTest, RunOnceWaitsForNoLongerThanItMay) {
  Loop loop;
  bool ran = false;
  loop.After(std::chrono::hours(1), [&] { ran = true; });
  EXPECT_TRUE(loop.RunOnce(milliseconds(1)));
  EXPECT_FALSE(ran);
}

TEST(LoopTest, RunUntilRunsAStoppedLoop) {
  Loop loop;
  loop.Stop();
  bool ran = false;
  loop.Post([&] { ran = true; });
  EXPECT_FALSE(loop.RunOnce(milliseconds(1)));
  loop.RunUntil([&] { return ran; }, loop.Now() + std::chrono::seconds(60));
  EXPECT_TRUE(ran);
  int asked = 0;
  loop.RunUntil(
      [&] {
        ++asked;
        return false;
      },
      loop.Now() + milliseconds(1));
  EXPECT_GE(asked, 1);
  EXPECT_FALSE(loop.RunOnce(milliseconds(1))) << "it stays stopped";
}

// Polls, and is never ready.
struct Looks final : Pollable {
  bool Poll() override { return looks++ == found_at; }
  Duration MaxSleep() override {
    ++sleeps;
    return milliseconds(1);
  }
  int looks = 0, sleeps = 0, found_at = -1;
};

TEST(LoopTest, ABusyPollEndsWhenSomethingArrives) {
  Loop loop;
  Looks looks;
  loop.impl().Add(&looks);
  loop.RunOnce(milliseconds(1));
  EXPECT_EQ(looks.sleeps, 1);
  looks = {};
  {
    const Loop::BusyPoll busy_poll(loop);
    looks.found_at = 1;  // the first poll is always made
    loop.RunOnce(milliseconds(1000));
    EXPECT_EQ(looks.looks, 2);
    EXPECT_EQ(looks.sleeps, 0);
  }
  looks = {};
  loop.RunOnce(milliseconds(1));
  EXPECT_EQ(looks.sleeps, 1) << "the busy poll is over";
  loop.impl().Remove(&looks);
}

TEST(LoopTest, BusyPollingLastsAsLongAsTheLoopWasBusy) {
  Loop loop;
  Looks looks;
  loop.impl().Add(&looks);
  loop.RunOnce(milliseconds(1));
  const Time begin = loop.Now();
  while (loop.Now() < begin + milliseconds(60)) {
  }
  const Loop::BusyPoll busy_poll(loop);
  const Time busy = loop.Now() - begin;
  looks.found_at = looks.looks + 1;
  loop.RunOnce(milliseconds(1000));
  EXPECT_EQ(looks.sleeps, 1) << "the one before the busy poll";
  loop.RunOnce(milliseconds(1000));
  EXPECT_EQ(looks.sleeps, 2);
  EXPECT_GE(loop.Now() - begin, 2 * busy) << "what came in between has not made it shorter";
  loop.impl().Remove(&looks);
}

TEST(LoopTest, BusyPollingWithoutResultBecomesRare) {
  Loop loop;
  Looks looks;
  loop.impl().Add(&looks);
  const Loop::BusyPoll busy_poll(loop);
  int busy_polls = 0;
  for (int wait = 0; wait < 31; ++wait) {
    looks.looks = 0;
    loop.RunOnce(milliseconds(1000));
    if (looks.looks > 1) ++busy_polls;
  }
  EXPECT_EQ(looks.sleeps, 31);
  EXPECT_EQ(busy_polls, 5) << "1, and after 1, 3, 7, 15 more";
  // After a successful busy poll others follow.
  looks.looks = 0;
  while (looks.looks < 2) {
    looks = {};
    looks.found_at = 1;
    loop.RunOnce(milliseconds(1000));
  }
  EXPECT_EQ(looks.sleeps, 0);
  looks = {};
  loop.RunOnce(milliseconds(1000));
  EXPECT_GT(looks.looks, 1);
  loop.impl().Remove(&looks);
}

}  // namespace
}  // namespace leat::net
