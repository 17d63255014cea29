// When a peer that does not go on in the middle of a message has stalled.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace leat::net {

// Nothing has moved for the timeout, and several checks in a row have seen that, with turns of the loop in
// between. A pause of this process, or of the whole machine, is one check however long it was: what the peer
// has sent, or could not send, meanwhile is not held against it.
class StallCheck {
 public:
  explicit StallCheck(Duration timeout) : timeout_(timeout) {}

  // Between two checks while something is to move.
  Duration interval() const { return std::max<Duration>(timeout_ / kChecks, std::chrono::milliseconds(1)); }
  // `moved`: when that last moved.
  bool Stalled(Time now, Time moved) {
    if (moved != moved_) checks_ = 0;
    moved_ = moved;
    ++checks_;
    return checks_ >= kChecks && now - moved >= timeout_;
  }

 private:
  static constexpr int kChecks = 4;

  Duration timeout_;
  Time moved_{};
  int checks_ = 0;  // since then
};

}  // namespace leat::net
