// Sends on a socket as background traffic: samples the kernel, and tells it the rate of BackgroundRate.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "net/tcp/background_rate.h"

namespace leat::net {

// Paces a connected socket, which stays paced afterwards. Thread-compatible.
class BackgroundSender {
 public:
  explicit BackgroundSender(int fd);

  // Call every BackgroundRate::kInterval while there is something to send. Takes some microseconds, and every
  // kLinkInterval more, because the kernel lists its network interfaces.
  void OnInterval(Time now);

 private:
  static constexpr Duration kLinkInterval = std::chrono::milliseconds(200);

  const int fd_;
  BackgroundRate rate_;
  double applied_ = 0;
  // Total of the bytes that have left by the interface; the kernel's counter has 32 bits.
  uint64_t link_ = 0;
  uint32_t link_counter_ = 0;
  Time link_read_{0};
};

}  // namespace leat::net
