#include "run/roles/background_thread.h"
#include "base/testing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <vector>

namespace leat::roles {
namespace {

TEST(BackgroundThread, WorksOffWhatIsPostedInOrderOnOneThread) {
  std::vector<int> done;
  std::thread::id thread;
  std::atomic<bool> last{false};
  BackgroundThread background;
  for (int i = 0; i < 100; ++i) background.Post([&done, i] { done.push_back(i); });
  background.Post([&] {
    thread = std::this_thread::get_id();
    last = true;
  });
  ASSERT_TRUE(WaitFor([&] { return last.load(); }));
  ASSERT_EQ(done.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(BackgroundThread, TakesWorkFromManyThreads) {
  std::atomic<int> done{0};
  BackgroundThread background;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 250; ++i) background.Post([&] { ++done; });
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(WaitFor([&] { return done == 1000; }));
}

TEST(BackgroundThread, WorkMayPostMore) {
  std::atomic<int> done{0};
  BackgroundThread background;
  std::function<void()> again = [&] {
    if (++done < 10) background.Post(again);
  };
  background.Post(again);
  EXPECT_TRUE(WaitFor([&] { return done == 10; }));
}

TEST(BackgroundThread, ItsEndWaitsForTheWorkUnderWay) {
  std::atomic<bool> began{false}, let_go{false}, ended{false};
  std::optional<BackgroundThread> background(std::in_place);
  background->Post([&] {
    began = true;
    WaitFor([&] { return let_go.load(); });
    ended = true;
  });
  ASSERT_TRUE(WaitFor([&] { return began.load(); }));
  std::thread later([&] { let_go = true; });
  background.reset();
  EXPECT_TRUE(ended);
  later.join();
}

TEST(BackgroundThread, WhatIsQueuedAtItsEndIsDroppedAndDestroyed) {
  std::atomic<int> done{0};
  const auto kept = std::make_shared<int>(1);
  std::optional<BackgroundThread> background(std::in_place);
  std::function<void()> for_ever = [&, kept] {
    ++done;
    background->Post(for_ever);
  };
  for (int i = 0; i < 10; ++i) background->Post(for_ever);
  ASSERT_TRUE(WaitFor([&] { return done > 100; }));
  background.reset();
  EXPECT_EQ(kept.use_count(), 2) << "here and in for_ever";
}

TEST(BackgroundThread, WhatWorkHoldsIsLetGoBeforeTheNextBegins) {
  std::atomic<long> seen{-1};
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watch = held;
  BackgroundThread background;
  background.Post([held = std::move(held)] {});
  background.Post([&] { seen = watch.use_count(); });
  ASSERT_TRUE(WaitFor([&] { return seen >= 0; }));
  EXPECT_EQ(seen, 0);
}

TEST(BackgroundThread, AnExceptionEndsTheProcessWithItsStatus) {
  const auto fail = [] {
    BackgroundThread background;
    background.Post([] { throw std::bad_alloc(); });
    (void)WaitFor([] { return false; });
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(75), "leat: out of memory");
}

}  // namespace
}  // namespace leat::roles
