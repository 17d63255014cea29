// The rate of a connection that gives way to other traffic: it uses what others leave of a link, with any
// congestion control of the kernel, and never less than a small share.
//
// In the spirit of LEDBAT (RFC 6817): packets that take longer than the shortest time seen wait in a queue,
// so somebody else uses the link, or this connection fills it. The rate then falls until the queue is gone;
// without a queue it rises. It differs in two ways. The queue that it allows is short, because training waits
// for each of its messages. And the rate falls to a share of the link at the least, because traffic that
// never pauses would starve a checkpoint.
//
// A peer that reads slowly delays no acknowledgement, so it is not taken for a busy link. Pure; not
// thread-safe.
#pragma once

#include <cstdint>
#include <deque>

#include "base/clock.h"

namespace leat::net {

// A connection that sends, as its kernel sees it. The counts are totals.
struct SenderSample {
  Duration rtt{0};         // round trip of the last packets
  Duration min_rtt{0};     // the shortest for a long time
  uint64_t delivered = 0;  // bytes that the peer's kernel has acknowledged
  uint64_t repeated = 0;   // bytes sent again
  // Bytes that have left by the same network interface, of any program, as of the moment when this number
  // last changed; 0: unknown. It should change a few times a second.
  uint64_t link = 0;
};

class BackgroundRate {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(5);  // between two samples

  // The connection's share of a link that is full. With less than a tenth of the link it could not finish in
  // time; training should keep 85 %.
  static constexpr double kShare = 0.12;
  static constexpr double kLowest = 256 << 10;  // bytes/s
  static constexpr double kFirst = 4 << 20;     // bytes/s, until the first decision
  // The delay by a queue that the connection allows, and its part of the shortest round trip if that is more.
  static constexpr Duration kQueue = std::chrono::milliseconds(1);
  static constexpr int kQueuePart = 8;

  // Takes a sample; returns the rate from now on, in bytes per second. After a pause of sending the rate is
  // the one before.
  double OnSample(Time now, const SenderSample& sample);
  double rate() const { return rate_; }

 private:
  void AddLink(Time now, const SenderSample& sample);
  void Decide(Time now, const SenderSample& last);
  void Rise(double delivered);
  void Fall(Time now, const SenderSample& last, Duration queue);
  double Floor() const;

  // The largest value of the last kForget to 2 * kForget.
  class Best {
   public:
    void Add(Time now, double value);
    double value() const { return value_ > before_ ? value_ : before_; }

   private:
    static constexpr Duration kForget = std::chrono::seconds(20);
    double value_ = 0, before_ = 0;
    Time since_{0};
  };

  double rate_ = kFirst;
  bool has_first_ = false;
  // The current window.
  Time begin_{0}, last_{0};
  SenderSample first_;
  Duration least_rtt_{0};
  int samples_ = 0;
  // The last change of SenderSample::link; its link is 0: none yet.
  Time link_begin_{0};
  SenderSample link_first_;
  bool alone_ = true;  // others send little through this interface

  Best best_link_, best_delivered_;
  double mean_delivered_ = 0, mean_rate_ = 0;  // means over the last windows
  double knee_ = 0;                            // the rate at which the last queue began; 0: none yet
  int clear_ = 0;                              // windows in a row without a queue
  int congested_ = 0;                          // windows in a row with a queue
  int falls_ = 0;                              // congested windows in which a fall was due
  Time streak_begin_{0};
  uint64_t streak_first_ = 0;  // delivered before it
  Duration queue_{0};          // when the rate fell because of it
};

// Sends on a socket as background traffic: samples the kernel, and tells it the rate of BackgroundRate.
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
