// Fault injection by decorator: wraps a real transport and drops, truncates, stalls or delays its messages,
// by a seeded schedule or on command. For tests.
//
// Faults affect messages that arrive at the decorated end. To affect both directions, decorate both ends.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>

#include "base/rng.h"
#include "net/transport.h"

namespace leat::net {

enum class Fault : uint8_t {
  kNone = 0,
  kDelay = 1,  // delivered later, as are all messages behind it
  kDrop = 2,   // the message and its connection are lost
  kCut = 3,    // the connection is lost in the middle of the payload
  kStall = 4,  // stops in the middle of the payload; the connection closes after the stall timeout
};

struct FaultSchedule {
  uint64_t seed = 1;
  // Probability of each fault per message, drawn in this order. The remainder is no fault.
  double delay = 0, drop = 0, cut = 0, stall = 0;
  Duration longest_delay = std::chrono::milliseconds(20);
  Duration stall_timeout = std::chrono::milliseconds(100);
};

// The fault commands and the random generator that decorated transports share. Loop's thread only.
class Faults {
 public:
  explicit Faults(FaultSchedule schedule = {}) : schedule_(schedule), rng_(schedule.seed) {}

  // Sets the fault of the next message that arrives. Commands queue up and take precedence over the schedule.
  void Next(Fault fault) { commands_.push_back(fault); }
  // Closes every connection now.
  void DropAll();
  // While true, attempts to connect fail with this code and incoming connections are refused.
  void set_unreachable(bool unreachable, Code code = Code::kUnavailable) {
    unreachable_ = unreachable;
    unreachable_code_ = code;
  }
  // Reports every open connection that was made as silent, or as heard of again.
  void SetSilent(bool silent);
  // The number of faults of this kind so far.
  uint64_t count(Fault fault) const { return counts_[static_cast<size_t>(fault)]; }

 private:
  friend class FaultConnection;
  friend class FaultTransport;
  Fault Draw();

  const FaultSchedule schedule_;
  Rng rng_;
  std::deque<Fault> commands_;
  bool unreachable_ = false;
  Code unreachable_code_ = Code::kUnavailable;
  std::array<uint64_t, 5> counts_{};
  std::set<class FaultConnection*> fault_connections_;
};

std::unique_ptr<Transport> MakeFaultTransport(Loop& loop, std::unique_ptr<Transport> inner,
                                              std::shared_ptr<Faults> faults);

}  // namespace leat::net
