#include "net/tcp/background_sender.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <vector>

#include "net/same_host/descriptor.h"
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
  const Descriptor sends(testing::ConnectTo(listener.address()));
  const Descriptor reads = listener.Accept();
  const auto unpaced = KernelRate(sends.get());
  BackgroundSender sender(sends.get());
  EXPECT_EQ(KernelRate(sends.get()), unpaced) << "not before something is sent";

  // The link of this host is free, so the rate rises.
  const MonotonicClock clock;
  const Time end = clock.Now() + std::chrono::seconds(60);
  std::vector<char> bytes(1 << 20);
  sender.OnInterval(clock.Now());
  EXPECT_EQ(KernelRate(sends.get()), static_cast<uint64_t>(BackgroundRate::kFirst));
  while (KernelRate(sends.get()) < 4 * BackgroundRate::kFirst && clock.Now() < end) {
    const Time next = clock.Now() + BackgroundRate::kInterval;
    while (clock.Now() < next) {
      (void)send(sends.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      (void)recv(reads.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    }
    sender.OnInterval(clock.Now());
  }
  EXPECT_GE(KernelRate(sends.get()), 4 * BackgroundRate::kFirst);
  EXPECT_LT(KernelRate(sends.get()), unpaced);
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
