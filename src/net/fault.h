// Faults by decorator: a real transport whose connections are dropped, cut in the middle of a payload,
// stalled or late, by a seeded schedule or on command.
//
// The faults befall what arrives at the decorated end: a message is taken from the real transport whole and
// handed on as its fate says. To hurt both directions, decorate both ends. For tests.
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
  kDelay = 1,  // handed on later, and those behind it after it
  kDrop = 2,   // lost, and the connection with it
  kCut = 3,    // the connection is lost in the middle of its payload
  kStall = 4,  // stops in the middle of its payload; after the stall timeout the connection is given up
};

struct FaultSchedule {
  uint64_t seed = 1;
  // Of each message that arrives, in this order; what is left of 1 is no fault.
  double delay = 0, drop = 0, cut = 0, stall = 0;
  Duration longest_delay = std::chrono::milliseconds(20);
  Duration stall_timeout = std::chrono::milliseconds(100);
};

// The commands and the dice of all transports that share it. Loop's thread only.
class Faults {
 public:
  explicit Faults(FaultSchedule schedule = {}) : schedule_(schedule), rng_(schedule.seed) {}

  // The fate of the next message that arrives and has none by command yet.
  void Next(Fault fault) { commands_.push_back(fault); }
  // Loses every connection now.
  void DropAll();
  // Whether attempts to connect fail, and those that come are turned away.
  void set_unreachable(bool unreachable) { unreachable_ = unreachable; }
  // How often it happened.
  uint64_t count(Fault fault) const { return counts_[static_cast<size_t>(fault)]; }

 private:
  friend class FaultConnection;
  friend class FaultTransport;
  Fault Draw();

  const FaultSchedule schedule_;
  Rng rng_;
  std::deque<Fault> commands_;
  bool unreachable_ = false;
  std::array<uint64_t, 5> counts_{};
  std::set<class FaultConnection*> fault_connections_;
};

std::unique_ptr<Transport> MakeFaultTransport(Loop& loop, std::unique_ptr<Transport> inner,
                                              std::shared_ptr<Faults> faults);

}  // namespace leat::net
