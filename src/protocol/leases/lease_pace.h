// How long workers take for their splits, and which leases are overdue.
//
// A worker trains its leases in the order of granting. A lease's time begins when it is granted, or when the
// worker has ended the lease before it. It is overdue after four times the median of the worker's last eight
// times, but not before `shortest`; before the first of them, after `first`. Time in which the worker waits
// for others does not count: a heartbeat says whether it waits, and that holds for one interval of
// heartbeats, since a worker that computes may send none.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace leat::protocol {

struct LeaseLimits {
  Duration first = std::chrono::minutes(15);
  Duration shortest = std::chrono::seconds(10);
  Duration heartbeat_interval = std::chrono::milliseconds(100);
};

// The lease of something that may be leased twice.
struct LeaseHolder {
  uint64_t lease = 0;
  NodeId worker;
  bool overdue = false;
};

class LeasePace {
 public:
  explicit LeasePace(const LeaseLimits& limits) : limits_(limits) {}

  void OnGranted(Time now, NodeId worker, uint64_t lease);
  // The worker has ended the lease.
  void OnEnded(Time now, NodeId worker, uint64_t lease);
  // The lease was taken from the worker; how long it would have taken is unknown.
  void OnTaken(NodeId worker, uint64_t lease);
  void OnHeartbeat(Time now, NodeId worker, bool waiting);
  void Forget(NodeId worker) { workers_.erase(worker); }
  void Clear() { workers_.clear(); }

  // The leases that have become overdue since the last call. Each is returned once.
  std::vector<uint64_t> Overdue(Time now);

  // The time that the worker's next lease may take.
  Duration LimitOf(NodeId worker) const;

  static constexpr int kFactor = 4;

 private:
  static constexpr size_t kLast = 8;
  // Points in time are of the worker's own time, which stands still while it waits.
  struct Held {
    uint64_t lease = 0;
    Time granted{0};
    bool overdue = false;
  };
  struct Worker {
    std::deque<Held> held;  // in the order of granting
    Time last_end{0};       // end of its last lease
    Duration waited{0};
    Time last_heartbeat{0};  // by the coordinator's clock
    std::array<Duration, kLast> times{};
    size_t count = 0;  // number of `times` ever recorded

    Time Own(Time now) const { return now - waited; }
  };

  Duration LimitOf(const Worker& worker) const;

  LeaseLimits limits_;
  std::map<NodeId, Worker> workers_;
};

}  // namespace leat::protocol
