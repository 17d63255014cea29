// Which server has the replica of which slice: another one than the slice itself. Pure functions.
//
// The plan copies as little as possible: replicas that are missing, or that are on servers which give all
// away, and otherwise only what some servers have far above their share. It is a fixed point: after it, there
// is nothing to copy.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace leat::protocol {

struct ReplicaBalance {
  struct Slice {
    uint32_t server = 0;              // index
    std::optional<uint32_t> replica;  // index of its replica's server; none: it has none
    double load = 0;
  };
  std::vector<Slice> slices;
  // By server: how much of the load of all replicas it is to have, relative to the others; 0: none.
  std::vector<double> weights;
  // [server][other]: whether the other may have replicas of the server's slices, as when they are to be in
  // different zones; empty: any other may.
  std::vector<std::vector<bool>> allowed;
};

struct ReplicaChange {
  uint32_t slice = 0;
  std::optional<uint32_t> to;  // server; none: no server is left for it, and it is given up
  friend bool operator==(const ReplicaChange&, const ReplicaChange&) = default;
};

std::vector<ReplicaChange> PlanReplicaChanges(const ReplicaBalance& balance);

}  // namespace leat::protocol
