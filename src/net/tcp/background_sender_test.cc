#include "net/tcp/background_rate.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "net/same_host/same_host_peer.h"
#include "net/testing.h"

namespace leat::net {
namespace {

uint64_t KernelRate(int fd) {
  uint64_t rate = 0;
  socklen_t size = sizeof(rate);
  EXPECT_EQ(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &size), 0);
  return rate;
}

TEST(BackgroundSender, TheKernelSendsAtTheRateOfTheRule) {
  testing::BareListener listener;
  const MonotonicClock clock;
  const Time end = clock.Now() + std::chrono::seconds(60);
  std::vector<char> bytes(1 << 20);
  uint64_t rate = 0;
  // The link of this host is free, so the rate of a connection rises at once. If the processor is so busy
  // that packets are late, it falls, and the next connection is tried.
  while (rate < 4 * BackgroundRate::kFirst && clock.Now() < end) {
    const Descriptor sends(testing::ConnectTo(listener.address()));
    const Descriptor reads = listener.Accept();
    const auto unpaced = KernelRate(sends.get());
    BackgroundSender sender(sends.get());
    EXPECT_EQ(KernelRate(sends.get()), unpaced) << "not before something is sent";
    sender.OnInterval(clock.Now());
    EXPECT_EQ(KernelRate(sends.get()), static_cast<uint64_t>(BackgroundRate::kFirst));
    const Time next_connection = clock.Now() + std::chrono::seconds(2);
    while (rate < 4 * BackgroundRate::kFirst && clock.Now() < next_connection) {
      const Time next = clock.Now() + BackgroundRate::kInterval;
      while (clock.Now() < next) {
        (void)send(sends.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)recv(reads.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      }
      sender.OnInterval(clock.Now());
      rate = KernelRate(sends.get());
    }
    EXPECT_LT(rate, unpaced);
  }
  EXPECT_GE(rate, 4 * BackgroundRate::kFirst);
}

TEST(BackgroundSender, WhatIsNoTcpSocketIsNotPaced) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const Descriptor one(ends[0]), other(ends[1]);
  const auto unpaced = KernelRate(one.get());
  BackgroundSender(one.get()).OnInterval(MonotonicClock().Now());
  EXPECT_EQ(KernelRate(one.get()), unpaced);
}

}  // namespace
}  // namespace leat::net
