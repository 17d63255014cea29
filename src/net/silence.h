// Decides when the host of a connection's peer has fallen silent: the network between, or the host, is lost.
//
// The peer's kernel acknowledges data, and answers keepalive probes, also for a process that is stopped or
// busy. Its silence therefore says nothing about the pace of the peer.
#pragma once

#include <chrono>
#include <optional>

#include "base/clock.h"

namespace leat::net {

// The kernel's view of a connection.
struct LinkSample {
  Duration heard{0};  // since anything has come from the peer's kernel
  // Since this kernel last sent unacknowledged bytes; null: everything is acknowledged.
  std::optional<Duration> asked;
};

// Asks the kernel about a connected socket, which takes some microseconds at most. `asked` is null for
// sockets that are not tcp.
LinkSample SampleLink(int fd);

class SilenceCheck {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(500);  // between two samples

  // Takes a sample. True if the peer's host is silent.
  //
  // An interruption of the network that is shorter than five seconds is none: the kernel has asked again
  // after that time. Its pauses double, though, so after kLongest the peer counts as silent in any case.
  bool Silent(const LinkSample& sample) {
    const bool unanswered =
        sample.asked && *sample.asked >= kAnswer && sample.heard - *sample.asked >= kInterruption;
    const bool still = checks_ > 0 && sample.asked && sample.heard >= kInterruption;
    const bool quiet = unanswered || still || (sample.asked && sample.heard >= kLongest);
    checks_ = quiet ? checks_ + 1 : 0;
    return checks_ >= kChecks;
  }

 private:
  static constexpr Duration kAnswer = std::chrono::milliseconds(300);
  static constexpr Duration kInterruption = std::chrono::milliseconds(5250);
  static constexpr Duration kLongest = std::chrono::milliseconds(7500);
  // After a pause of this machine the first sample is from before its network runs again.
  static constexpr int kChecks = 2;

  int checks_ = 0;  // in a row that have found it quiet
};

}  // namespace leat::net
