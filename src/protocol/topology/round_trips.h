// The round trip to a peer: the least of the last few calls, because a call also takes the time that the peer
// or this process was busy. Pure state.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/clock.h"

namespace leat::topology {

class RoundTrips {
 public:
  static constexpr size_t kLast = 8;

  // A call was answered after this time.
  void Add(Duration took) { last_[added_++ % kLast] = std::max(took, Duration(0)); }
  // 0: no call was answered yet.
  Duration least() const {
    const size_t known = std::min(added_, kLast);
    return known == 0 ? Duration(0)
                      : *std::min_element(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(known));
  }
  size_t added() const { return added_; }

 private:
  std::array<Duration, kLast> last_{};
  size_t added_ = 0;
};

}  // namespace leat::topology
