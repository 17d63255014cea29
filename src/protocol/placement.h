// Slices placed on servers, and what that comes to. Pure functions.
//
// Whatever belongs to a slice lives where it lives: its values, its optimizer's slots, its ledger, and the
// part of a checkpoint that is written. So the places of slices are those of everything that is held and
// saved.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/status.h"
#include "protocol/slices.h"

namespace leat::protocol {

// The user's own way: the server (0 … servers-1) of each slice of the table. What it returns is checked.
using PlacementFunction = std::function<std::vector<uint32_t>(const SliceTable& table, uint32_t servers)>;

struct Placement {
  enum Kind : uint8_t {
    kRoundRobin = 0,   // whole variables in turn
    kGreedy = 1,       // whole variables, largest first, to the server with the fewest bytes; slice by slice
                       // where a whole one would give that server more than its share
    kPartitioned = 2,  // slices, largest first, to the server with the fewest bytes: every variable over all
    kWeighted = 3,     // as partitioned, each server in proportion to its weight
    kOwn = 4,          // by `own`
  };
  Placement(Kind of_kind = kGreedy) : kind(of_kind) {}  // NOLINT: a kind alone is a placement

  Kind kind;
  std::vector<double> weights;    // kWeighted: of server 0, 1, …
  std::vector<uint32_t> exclude;  // servers that are given nothing; not with kOwn
  PlacementFunction own;          // kOwn
};

// Reads the `placement:` of a job: a name, or a map with `type`, `weights` and `exclude`. Throws
// std::invalid_argument with place and values.
Placement PlacementFromConfig(const Config& config);

// Why it makes no sense with so many servers, in one line; ok when it does.
Status Check(const Placement& placement, uint32_t servers);

// The server (0 … servers-1) of each slice. kInvalidArgument where Check fails, or the user's own function
// throws or returns what is no placement.
Result<std::vector<uint32_t>> Place(const SliceTable& table, const Placement& placement, uint32_t servers);

// The same for one of the first three kinds, which need no more and cannot fail. `servers` 0 is taken for 1.
std::vector<uint32_t> Place(const SliceTable& table, Placement::Kind kind, uint32_t servers);

// What each server carries.
struct PlacementReport {
  struct VariableBytes {
    std::string name;
    uint64_t bytes = 0;
  };
  struct Server {
    uint64_t bytes = 0;                    // values and slots
    double share = 0;                      // of all bytes
    double fair = 0;                       // what its share was to be
    std::vector<VariableBytes> variables;  // that it has a part of, the largest first
  };
  uint64_t bytes = 0;
  std::vector<Server> servers;
  // One line for each server that carries more than twice its fair share (of two servers, where that would be
  // more than there is: half of what is the other's as well), with what weighs most in it. Empty when all is
  // well.
  std::vector<std::string> warnings;
};

// `slots`: floats that the optimizer keeps for each element beside its value. `servers` and `places` as Place
// returned them.
PlacementReport Describe(const SliceTable& table, const Placement& placement,
                         const std::vector<uint32_t>& places, uint32_t servers, size_t slots);

// "1.6 MB"
std::string BytesText(uint64_t bytes);

}  // namespace leat::protocol
