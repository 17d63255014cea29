// Decides when a peer has stalled in the middle of a message.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>

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

// Watches the messages of a connection. A single timer checks the time of the last progress, so that no timer
// is set per message. Loop's thread only.
class StallTimer {
 public:
  // The progress that a connection waits for.
  struct Awaited {
    Time moved{};            // when there was some last
    bool receiving = false;  // else sending
  };

  StallTimer(Loop& loop, Duration timeout) : loop_(loop), check_(timeout) {}

  // Watches `owner` for as long as its Awaiting() is something, and calls its OnStall(bool receiving) if the
  // peer has stalled. The owner has this timer as a member.
  template <typename Owner>
  void Watch(Owner& owner) {
    if (armed_ || !owner.Awaiting()) return;
    armed_ = true;
    loop_.After(check_.interval(), [this, &owner, weak = owner.weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr) return;
      armed_ = false;
      const std::optional<Awaited> awaited = owner.Awaiting();
      if (!awaited) return;
      if (check_.Stalled(loop_.Now(), awaited->moved)) return owner.OnStall(awaited->receiving);
      Watch(owner);
    });
  }

 private:
  Loop& loop_;
  StallCheck check_;
  bool armed_ = false;
};

}  // namespace leat::net
