#include "compute/engine/run/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>

namespace leat::engine {
namespace {

// Waits for a condition, with a deadline.
template <class F>
bool Soon(const F& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

class Counter final : public ThreadPool::Job {
 public:
  void Help() override { ++calls; }
  std::atomic<int> calls{0};
};

TEST(ThreadPool, GivesEachJobTheThreadsItAskedFor) {
  ThreadPool pool;
  pool.Grow(2);
  pool.Grow(1);
  EXPECT_EQ(pool.threads(), 2);
  Counter a, b;
  for (int i = 0; i < 200; ++i) {
    pool.Submit(a, 2);
    pool.Submit(b, 1);
    pool.Submit(a, 0);
  }
  EXPECT_TRUE(Soon([&] { return a.calls == 400 && b.calls == 200; }));
}

TEST(ThreadPool, AWithdrawnJobIsLeftAlone) {
  ThreadPool pool;
  Counter never;
  pool.Submit(never, 3);  // the pool has no thread yet
  Counter other;
  pool.Submit(other, 1);
  pool.CancelAndWait(never);
  pool.Grow(1);
  EXPECT_TRUE(Soon([&] { return other.calls == 1; }));
  EXPECT_EQ(never.calls, 0);
}

// CancelAndWait returns only when no thread is in Help.
TEST(ThreadPool, WithdrawWaitsForThoseWhoHelp) {
  class Slow final : public ThreadPool::Job {
   public:
    void Help() override {
      begun = true;
      while (!go) std::this_thread::yield();
      over = true;
    }
    std::atomic<bool> begun{false}, go{false}, over{false};
  };
  ThreadPool pool;
  pool.Grow(1);
  Slow slow;
  pool.Submit(slow, 1);
  ASSERT_TRUE(Soon([&] { return slow.begun.load(); }));
  std::thread releaser([&] { slow.go = true; });
  pool.CancelAndWait(slow);
  EXPECT_TRUE(slow.over);
  releaser.join();
}

TEST(ThreadPool, ItsThreadsKeepToTheirCores) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  int last = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mine)) last = core;
  }
  class WhereAmI final : public ThreadPool::Job {
   public:
    void Help() override {
      cpu_set_t set;
      if (sched_getaffinity(0, sizeof set, &set) == 0) cores = CPU_COUNT(&set);
      core = sched_getcpu();
      done = true;
    }
    int cores = 0, core = -1;
    std::atomic<bool> done{false};
  };
  ThreadPool pool({last});
  pool.Grow(1);
  WhereAmI where;
  pool.Submit(where, 1);
  ASSERT_TRUE(Soon([&] { return where.done.load(); }));
  EXPECT_EQ(where.cores, 1);
  EXPECT_EQ(where.core, last);
}

TEST(ThreadPool, OneForTheProcessWhileSomebodyHasIt) {
  std::weak_ptr<ThreadPool> before;
  {
    const auto a = ThreadPool::OfProcess(), b = ThreadPool::OfProcess();
    EXPECT_EQ(a, b);
    before = a;
  }
  EXPECT_TRUE(before.expired());
}

}  // namespace
}  // namespace leat::engine
