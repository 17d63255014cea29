#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "lab/sim/hosts/link_queue.h"
#include "lab/sim/hosts/machines.h"

namespace leat::sim {
namespace {

using namespace std::chrono_literals;

TEST(LinkQueue, BytesQueueAtTheLinksRate) {
  LinkQueue queue(Link{.bytes_per_s = 1e6});
  const auto a = queue.Take(Time(1ms), 1000);
  EXPECT_EQ(a.first, Time(1ms));
  EXPECT_EQ(a.last, Time(2ms));
  const auto b = queue.Take(Time(1ms), 2000);
  EXPECT_EQ(b.first, Time(2ms));
  EXPECT_EQ(b.last, Time(4ms));
  EXPECT_EQ(queue.Take(Time(10ms), 1000).last, Time(11ms));
}

TEST(LinkQueue, AnUnlimitedLinkTakesNoTime) {
  LinkQueue queue;
  EXPECT_EQ(queue.Take(Time(1ms), 1 << 30).last, Time(1ms));
}

TEST(LinkQueue, ABucketLetsABurstPass) {
  LinkQueue queue(Link{.bytes_per_s = 1e6, .burst = 3000});
  // It is full at the beginning.
  EXPECT_EQ(queue.Take(Time(0), 3000).last, Time(0));
  EXPECT_EQ(queue.Take(Time(0), 1000).last, Time(1ms));
  // 2 ms of rest have saved 2000 bytes, of which 1000 were lent.
  EXPECT_EQ(queue.Take(Time(3ms), 2000).last, Time(3ms));
  EXPECT_EQ(queue.Take(Time(3ms), 500).last, Time(3500us));
  // A longer rest saves no more than the bucket holds.
  EXPECT_EQ(queue.Take(Time(1s), 4000).last, Time(1001ms));
}

// ---- cores

// Runs all tasks to their ends: (task, time) in that order.
std::vector<std::pair<uint32_t, Time>> Ends(SharedCores* cores) {
  std::vector<std::pair<uint32_t, Time>> ends;
  for (Time at; (at = cores->NextEnd()) != Time::max();) {
    for (uint32_t task = 0; cores->End(at, &task);) ends.emplace_back(task, at);
  }
  return ends;
}

TEST(SharedCores, WithACoreForEachThreadATaskTakesItsWork) {
  SharedCores cores(2);
  cores.Begin(Time(0), 1, 10ms);
  cores.Begin(Time(2ms), 2, 10ms);
  EXPECT_EQ(Ends(&cores), (std::vector<std::pair<uint32_t, Time>>{{1, 10ms}, {2, 12ms}}));
}

TEST(SharedCores, ThreadsShareACoreEvenly) {
  SharedCores cores(1);
  cores.Begin(Time(0), 1, 10ms);
  cores.Begin(Time(0), 2, 30ms);
  // Both get half until the first is done at 20 ms; then the second has 20 ms of work left.
  EXPECT_EQ(Ends(&cores), (std::vector<std::pair<uint32_t, Time>>{{1, 20ms}, {2, 40ms}}));
}

TEST(SharedCores, ALaterTaskSlowsTheFirstDown) {
  SharedCores cores(1);
  cores.Begin(Time(0), 1, 10ms);
  EXPECT_EQ(cores.NextEnd(), Time(10ms));
  EXPECT_EQ(cores.Share(1), 0.5);
  cores.Begin(Time(5ms), 2, 5ms);
  EXPECT_EQ(Ends(&cores), (std::vector<std::pair<uint32_t, Time>>{{1, 15ms}, {2, 15ms}}));
}

TEST(SharedCores, ATaskOfSeveralThreadsNeedsAsManyCores) {
  SharedCores cores(2);
  cores.Begin(Time(0), 1, 10ms, 4);
  EXPECT_EQ(Ends(&cores), (std::vector<std::pair<uint32_t, Time>>{{1, 20ms}}));
}

TEST(SharedCores, WorkIsNeverLost) {
  SharedCores cores(1.5);
  uint32_t ended = 0;
  for (uint32_t i = 0; i < 100; ++i) {
    const Time begin = i * 1ms;
    for (Time at; (at = cores.NextEnd()) <= begin;) {
      for (uint32_t task = 0; cores.End(at, &task);) ++ended;
    }
    cores.Begin(begin, i, 3ms);
  }
  const auto ends = Ends(&cores);
  EXPECT_EQ(ended + ends.size(), 100u);
  // 1 ms with one thread, and then 299 ms of work on a core and a half, but for the last task alone.
  EXPECT_NEAR(Seconds(ends.back().second), 0.001 + 0.299 / 1.5, 1e-3);
}

}  // namespace
}  // namespace leat::sim
