
#include <gtest/gtest.h>

#include <algorithm>

#include "net/handshake/handshake.h"
#include "net/same_host/same_host_peer.h"
#include "net/testing.h"
#include "net/transport.h"

namespace leat::net {
namespace {

using std::chrono::milliseconds;

struct Link {
  SilenceCheck check;
  // Samples the link at these times of the cut, in milliseconds. `asks`: when the kernel sends again. Returns
  // when the peer counts as silent, or 0.
  int SilentAt(const std::vector<int>& asks, int until) {
    for (int now = 250; now <= until; now += 500) {
      LinkSample sample{.heard = milliseconds(now), .asked = {}};
      for (int ask : asks) {
        if (ask <= now) sample.asked = milliseconds(now - ask);
      }
      if (check.Silent(sample)) return now;
    }
    return 0;
  }
};

TEST(SilenceCheck, ProbesThatNobodyAnswersAreSilence) {
  const int at = Link().SilentAt({2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000}, 10'000);
  EXPECT_GE(at, 6000);
  EXPECT_LE(at, 7500) << "the next probe does not start the time again";
}

TEST(SilenceCheck, DataThatIsSentAgainAndAgainIsSilence) {
  for (const int first : {200, 240, 300, 700}) {
    std::vector<int> asks = {0};
    for (int pause = first; asks.back() < 10'000; pause *= 2) asks.push_back(asks.back() + pause);
    const int at = Link().SilentAt(asks, 10'000);
    EXPECT_GE(at, 5250) << first;
    EXPECT_LE(at, 8250) << first;
  }
}

// The kernel has not asked since the link may have come back.
TEST(SilenceCheck, AnInterruptionOfFiveSecondsIsNone) {
  EXPECT_EQ(Link().SilentAt({0, 200, 600, 1400, 3000, 6200}, 6200), 0);
  EXPECT_EQ(Link().SilentAt({2000, 3000, 4000, 5000, 6000}, 6100), 0);
}

TEST(SilenceCheck, NothingIsHeardOfAPeerThatHasNothingToAcknowledge) {
  SilenceCheck check;
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(check.Silent({.heard = milliseconds(60'000), .asked = {}}));
}

TEST(SilenceCheck, OneSampleAfterAPauseOfTheMachineIsNone) {
  SilenceCheck check;
  const LinkSample quiet{.heard = milliseconds(60'000), .asked = milliseconds(50'000)};
  const LinkSample fresh{.heard = milliseconds(20), .asked = milliseconds(10)};
  EXPECT_FALSE(check.Silent(quiet));
  EXPECT_FALSE(check.Silent(fresh));
  EXPECT_FALSE(check.Silent(quiet));
  EXPECT_TRUE(check.Silent(quiet));
  EXPECT_FALSE(check.Silent(fresh)) << "it answers again";
}

// The kernel of a process that does nothing answers within the pause of the probes.
TEST(SampleLink, AnIdleConnectionIsProbed) {
  const testing::BareListener listener;
  const Descriptor socket_(testing::ConnectTo(listener.address()));
  PrepareSocket(socket_.get(), TransportOptions{});
  const Time end = MonotonicClock().Now() + std::chrono::seconds(60);
  Duration longest{0};
  bool probed = false;
  while (!probed && MonotonicClock().Now() < end) {
    const LinkSample sample = SampleLink(socket_.get());
    probed = longest > sample.heard + std::chrono::seconds(1);
    longest = std::max(longest, sample.heard);
  }
  EXPECT_TRUE(probed);
  EXPECT_LT(longest, kKeepAliveIdle + kKeepAliveInterval);
}

TEST(SampleLink, WhatIsNoTcpSocketIsNeverSilent) {
  EXPECT_FALSE(SampleLink(0).asked);
}

}  // namespace
}  // namespace leat::net
