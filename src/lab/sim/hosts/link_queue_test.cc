#include "lab/sim/hosts/link_queue.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace leat::sim
