#include "lab/sim/events/event_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.h"

namespace leat::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

TEST(EventQueueTest, HappensInTheOrderOfTimeAndOfAskingForIt) {
  Rng rng(1);
  EventQueue queue;
  std::vector<std::pair<Time, uint32_t>> asked;
  const auto ask = [&](Time at) {
    const auto what = static_cast<uint32_t>(asked.size());
    asked.emplace_back(std::max(at, queue.now()), what);
    queue.At(at, 1, what);
  };
  std::vector<std::pair<Time, uint32_t>> happened;
  // At once, in the past, soon, much later; many at the same time.
  for (int i = 0; i < 500; ++i) ask(microseconds(rng.Below(300)));
  EventQueue::Event event;
  while (queue.Next(&event)) {
    queue.LookAhead([](const EventQueue::Event&, int) {});
    EXPECT_EQ(queue.now(), event.at);
    happened.emplace_back(event.at, event.what);
    if (asked.size() > 20'000) continue;
    ask(queue.now());
    ask(queue.now() - microseconds(5));
    ask(queue.now() + microseconds(rng.Below(1000)));
    if (rng.Chance(0.2)) ask(queue.now() + microseconds(rng.Below(3'000'000)));
    if (rng.Chance(0.01)) ask(queue.now() + microseconds(rng.Below(1'000'000'000)));
  }
  ASSERT_EQ(happened.size(), asked.size());
  std::ranges::stable_sort(asked, {}, [](const auto& one) { return one.first; });
  EXPECT_EQ(happened, asked);
}

TEST(EventQueueTest, KeepsTheOrderWhileSpansGetShorterAndLonger) {
  Rng rng(1);
  EventQueue queue;
  uint32_t asked = 0, happened = 0, fetched = 0;
  // Thousands of events in each microsecond, then one in ten, then thousands again.
  const auto spacing = [&] { return asked / 400'000 == 1 ? 10'000 : 1; };
  const auto ask = [&] { queue.At(queue.now() + Duration(rng.Below(2000 * spacing())), 1, asked++); };
  while (asked < 2000) ask();
  EventQueue::Event event, last{.at = Time(-1)};
  while (queue.Next(&event)) {
    ++happened;
    queue.LookAhead([&](const EventQueue::Event& soon, int hop) {
      ASSERT_GT(soon.at, event.at);
      fetched += hop == 0 ? 1 : 0;
    });
    ASSERT_GT(std::pair(event.at, event.order), std::pair(last.at, last.order));
    last = event;
    if (asked < 1'200'000) ask();
  }
  EXPECT_EQ(happened, asked);
  EXPECT_GT(fetched, asked / 4);
}

TEST(EventQueueTest, KnowsHowMuchIsStillToHappen) {
  EventQueue queue;
  const std::vector<Time> asked = {seconds(0),   microseconds(10), seconds(1),   seconds(30),
                                   seconds(100), seconds(3600),    seconds(3601)};
  for (const Time at : asked) queue.At(at, 1, 0);
  EventQueue::Event event;
  for (size_t happened = 0; happened < asked.size(); ++happened) {
    EXPECT_EQ(queue.size(), asked.size() - happened);
    ASSERT_TRUE(queue.Next(&event));
    EXPECT_EQ(event.at, asked[happened]);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_FALSE(queue.Next(&event));
}

TEST(EventQueueTest, WhatIsKnownInTimeIsLookedAtOnceAtEachHop) {
  EventQueue queue;
  std::map<uint32_t, std::vector<int>> hops;
  const auto look = [&](const EventQueue::Event& event, int hop) { hops[event.what].push_back(hop); };
  // Events follow one after the other: the first of them, and one scheduled late, cannot be known before.
  constexpr uint32_t kEvents = 20'000;
  for (uint32_t i = 0; i < kEvents; ++i) queue.At(microseconds(2 * i), 1, i);
  std::vector<int> all(EventQueue::kHops);
  for (int hop = 0; hop < EventQueue::kHops; ++hop) all[hop] = hop;
  uint32_t wholly = 0;
  EventQueue::Event event;
  while (queue.Next(&event)) {
    queue.LookAhead(look);
    if (event.what == 5000) queue.At(queue.now() + microseconds(1), 1, kEvents);
    const std::vector<int>& seen = hops[event.what];
    EXPECT_TRUE(std::ranges::is_sorted(seen, std::less_equal<>())) << event.what;
    if (seen == all) ++wholly;
  }
  EXPECT_GT(wholly, 19'900u);
  EXPECT_TRUE(hops[kEvents].empty());
  EXPECT_TRUE(hops[0].empty());
}

}  // namespace
}  // namespace leat::sim
