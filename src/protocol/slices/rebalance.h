// Which slices and replicas move to which servers: when a server joins or leaves, when one has much more to
// do than others, and when a slice lacks its replica. The plans are pure functions.
//
// A plan moves as little as possible: what leaves a server that gives all away, and otherwise only what some
// servers have above their share and others lack. A replica is on another server than its slice; those that
// are missing are copied, and others only from servers far above their share. A plan is a fixed point: after
// it, there is nothing to move.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/messages_control.h"

namespace leat::protocol {

struct Balance {
  struct Slice {
    uint32_t server = 0;              // index
    std::optional<uint32_t> replica;  // index of its replica's server; none: it has none
    double load = 0;                  // its part of the load of all slices
  };
  std::vector<Slice> slices;
  // By server: how much of the load it is to have, relative to the others. 0: it gives all slices away, and
  // has no replicas.
  std::vector<double> weights;
  // [server][other]: whether the other may have replicas of the server's slices, as when they are to be in
  // different zones; empty: any other may.
  std::vector<std::vector<bool>> allowed = {};
};

struct SliceMove {
  uint32_t slice = 0;
  uint32_t from = 0, to = 0;  // servers
  friend bool operator==(const SliceMove&, const SliceMove&) = default;
};

// A server that differs from its share by more than this part of it is out of balance. A plan then reaches a
// much better balance, so that small changes of the load cause no further one.
constexpr double kImbalance = 0.25;

bool OutOfBalance(const Balance& balance);

// The moves in their order. Slices of servers with weight 0 go to the others. `level`: the others also level
// their loads. Empty if no server has a weight.
std::vector<SliceMove> PlanMoves(const Balance& balance, bool level);

// The load of each slice, as a part of all: half by the bytes that it has and half by its traffic, as far as
// there is any and it has been measured (empty: it has not).
std::vector<double> SliceLoads(const std::vector<uint64_t>& bytes, const std::vector<double>& traffic);

// ---- replicas

struct ReplicaChange {
  uint32_t slice = 0;
  std::optional<uint32_t> to;  // server; none: no server is left for it, and it is given up
  friend bool operator==(const ReplicaChange&, const ReplicaChange&) = default;
};

std::vector<ReplicaChange> PlanReplicaChanges(const Balance& balance);

// ---- loads

// The traffic of each slice, from the totals that servers report now and then. Pure state, part of the
// coordinator. Not thread-safe.
class TrafficMeter {
 public:
  explicit TrafficMeter(size_t slices) : slices_(slices) {}

  void OnReport(Time now, NodeId server, const std::vector<SliceTraffic>& traffic);
  // Bytes per second of each slice, with something added for each request; a mean of the last reports. Empty
  // until all slices have been measured.
  std::vector<double> Rates() const;

 private:
  struct Slice {
    NodeId server;  // server of the last report
    double total = 0;
    Time at{0};
    double rate = -1;  // unknown
  };
  std::vector<Slice> slices_;
};

}  // namespace leat::protocol
