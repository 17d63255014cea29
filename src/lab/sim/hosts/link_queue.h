// Links of hosts. In each direction bytes queue in the order of sending.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace leat::sim {

struct Link {
  double bytes_per_s = 0;  // per direction; 0: unlimited
  Duration latency{0};     // per message, in addition to the transfer time
  // Bytes that pass without delay after a pause: the size of a token bucket, as `burst` of tc-tbf(8).
  uint64_t burst = 0;
};

// How far a message is.
enum class Route : uint8_t {
  kLink = 0,   // on the links of two hosts
  kLocal = 1,  // within a host
  kOutOf = 2,  // at the link of its sender's zone
  kInto = 3,   // at that of its receiver's
};

class LinkQueue {
 public:
  struct Passage {
    Time first, last;  // when the first byte has left, and the last
  };

  LinkQueue() = default;
  explicit LinkQueue(const Link& link) {
    SetRate(link.bytes_per_s);
    saved_ = Takes(link.burst);
    free_ = -saved_;
  }
  void SetRate(double bytes_per_s) { ns_per_byte_ = bytes_per_s > 0 ? 1e9 / bytes_per_s : 0; }

  // Queues bytes that are there at `at`. Times of calls do not decrease.
  Passage Take(Time at, uint64_t bytes) {
    const Time first = std::max(at, free_);
    // An empty queue that has rested is ahead of its rate, by at most the bucket.
    free_ = std::max(free_, at - saved_) + Takes(bytes);
    return {first, std::max(at, free_)};
  }
  // When the last byte so far has left; not after `now` if the queue is empty.
  Time free() const { return free_; }

 private:
  Duration Takes(uint64_t bytes) const {
    return Duration(static_cast<int64_t>(ns_per_byte_ * static_cast<double>(bytes)));
  }

  Time free_{0};
  double ns_per_byte_ = 0;
  Duration saved_{0};  // the time that the bucket takes at the rate
};

// A host's link and cores, in one cache line.
struct alignas(64) HostState {
  static constexpr uint32_t kEnoughCores = UINT32_MAX;
  static constexpr uint32_t kAny = UINT32_MAX;  // the next host of the role
  LinkQueue down, up;
  Duration latency{0};
  uint32_t zone = 0;
  uint32_t cores = kEnoughCores;  // number of its shared cores
};

}  // namespace leat::sim
