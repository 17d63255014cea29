#include "net/http/connection_limit.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace leat::net {
namespace {

struct LimitedPeer {
  std::unique_ptr<ConnectionLimit<LimitedPeer>::Place> place;
};
using Peers = ConnectionLimit<LimitedPeer>;

std::shared_ptr<LimitedPeer> Join(Peers& limit, uint64_t host) {
  auto peer = std::make_shared<LimitedPeer>();
  peer->place = limit.Add(peer, host);
  return peer;
}

TEST(ConnectionLimitTest, CountsThoseThatAreOpen) {
  Peers limit(2);
  auto one = Join(limit, 1);
  EXPECT_FALSE(limit.full());
  auto two = Join(limit, 1);
  EXPECT_TRUE(limit.full());
  one->place->BeginServing();
  one.reset();
  EXPECT_FALSE(limit.full());
}

TEST(ConnectionLimitTest, TheOldestUnknownOneEndsFirst) {
  Peers limit(3);
  const auto known = Join(limit, 1), one = Join(limit, 1), two = Join(limit, 1);
  known->place->BeginServing();
  known->place->BeginWaiting();
  EXPECT_TRUE(known->place->known());
  EXPECT_EQ(limit.FirstToEnd(), one);
  one->place->BeginServing();
  EXPECT_TRUE(one->place->serving());
  EXPECT_EQ(limit.FirstToEnd(), two);
}

// A flood from one host keeps those of other hosts neither out nor short.
TEST(ConnectionLimitTest, AHostWithManyUnknownOnesMakesRoom) {
  Peers limit(10);
  const auto other = Join(limit, 1);
  std::vector<std::shared_ptr<LimitedPeer>> many;
  for (int i = 0; i < 5; ++i) many.push_back(Join(limit, 2));
  for (int i = 0; i < 4; ++i) {
    const auto first = limit.FirstToEnd();
    EXPECT_EQ(first, many[i]);
    many[i]->place.reset();
  }
}

// A flood from many hosts, one connection from each, ends its own older ones before one that came later.
TEST(ConnectionLimitTest, OfHostsWithAsManyTheOldestOneMakesRoom) {
  Peers limit(10);
  std::vector<std::shared_ptr<LimitedPeer>> peers;
  for (const uint64_t host : {5, 9, 1, 7}) peers.push_back(Join(limit, host));
  EXPECT_EQ(limit.FirstToEnd(), peers[0]);
  peers[0]->place->BeginServing();
  EXPECT_EQ(limit.FirstToEnd(), peers[1]);
}

TEST(ConnectionLimitTest, IfAllAreKnownTheOneThatIsIdleForLongest) {
  Peers limit(2);
  const auto one = Join(limit, 1), two = Join(limit, 2);
  one->place->BeginWaiting();
  two->place->BeginWaiting();
  EXPECT_EQ(limit.FirstToEnd(), one);
  one->place->BeginServing();
  EXPECT_EQ(limit.FirstToEnd(), two);
  two->place->BeginServing();
  EXPECT_EQ(limit.FirstToEnd(), nullptr);
  two->place->BeginWaiting();
  one->place->BeginWaiting();
  EXPECT_EQ(limit.FirstToEnd(), two);
}

TEST(ConnectionLimitTest, PlacesOfManyThreads) {
  Peers limit(1000);
  std::vector<std::jthread> threads;
  for (uint64_t host = 0; host < 4; ++host) {
    threads.emplace_back([&limit, host] {
      for (int i = 0; i < 2000; ++i) {
        const auto peer = Join(limit, host);
        peer->place->BeginServing();
        (void)limit.FirstToEnd();
        peer->place->BeginWaiting();
      }
    });
  }
  threads.clear();
  EXPECT_EQ(limit.FirstToEnd(), nullptr);
}

uint64_t NumberOf(const char* address) {
  return HostNumber(boost::asio::ip::make_address(address));
}

TEST(HostNumberTest, AddressesOfOneHost) {
  EXPECT_NE(NumberOf("10.0.0.1"), NumberOf("10.0.0.2"));
  EXPECT_EQ(NumberOf("10.0.0.1"), NumberOf("::ffff:10.0.0.1"));
  EXPECT_EQ(NumberOf("2001:db8::1"), NumberOf("2001:db8::2"));
  EXPECT_NE(NumberOf("2001:db8::1"), NumberOf("2001:db8:0:1::1"));
}

}  // namespace
}  // namespace leat::net
