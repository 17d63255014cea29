// Decides when a peer has stalled in the middle of a message.
#pragma once

#include <algorithm>
#include <memory>

#include "base/clock.h"
#include "net/loop.h"

namespace leat::net {

// A peer has stalled if nothing progressed for the timeout and several consecutive checks confirm it, with
// iterations of the loop in between. A pause of this process or machine counts as one check, so it is not
// blamed on the peer.
class StallCheck {
 public:
  explicit StallCheck(Duration timeout) : timeout_(timeout) {}

  // Time between two checks while progress is expected.
  Duration interval() const { return std::max<Duration>(timeout_ / kChecks, std::chrono::milliseconds(1)); }
  // `moved`: time of the last progress.
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
  int checks_ = 0;  // since moved_
};

// The timer of a connection's StallCheck. Loop's thread only.
class StallTimer {
 public:
  StallTimer(Loop& loop, Duration timeout) : loop_(loop), check_(timeout) {}

  // Calls `owner`'s `check` after the interval, once, unless it is destroyed before; nothing when a call is
  // due already. The owner has this timer as a member.
  template <typename Owner>
  void Arm(Owner& owner, void (Owner::*check)()) {
    if (armed_) return;
    armed_ = true;
    loop_.After(check_.interval(), [this, check, weak = owner.weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      armed_ = false;
      (self.get()->*check)();
    });
  }
  // From within `check`.
  bool Stalled(Time moved) { return check_.Stalled(loop_.Now(), moved); }

 private:
  Loop& loop_;
  StallCheck check_;
  bool armed_ = false;
};

}  // namespace leat::net
