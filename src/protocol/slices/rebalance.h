// Which slices move to which servers: when a server joins or leaves, and when one has much more to do than
// others. Pure functions.
//
// The plan moves as little as possible: what leaves a server that gives all away, and otherwise only what
// some servers have above their share and others lack. It is a fixed point: after it, there is nothing to
// move.
#pragma once

#include <cstdint>
#include <vector>

namespace leat::protocol {

struct Balance {
  struct Slice {
    uint32_t server = 0;  // index
    double load = 0;      // its part of the load of all slices
  };
  std::vector<Slice> slices;
  // By server: how much of the load it is to have, relative to the others. 0: it gives all slices away.
  std::vector<double> weights;
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

}  // namespace leat::protocol
