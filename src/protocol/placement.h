// Placement of slices on servers, and the resulting load. Pure functions.
//
// Everything that belongs to a slice is on its server: its values, optimizer slots, ledger, and its part of a
// checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "protocol/slices.h"

namespace leat::protocol {

// A custom placement: returns the server (0 … servers-1) of each slice of the table. The result is checked.
// It must be a pure function: several processes call it and need the same result.
using PlacementFunction = std::function<std::vector<uint32_t>(const SliceTable& table, uint32_t servers)>;

struct Placement {
  enum Kind : uint8_t {
    kRoundRobin = 0,  // whole variables in turn
    kGreedy = 1,      // whole variables, largest first, to the server with the fewest bytes; slice by slice
                      // if a whole variable would exceed that server's share
    // slices, largest first, to the server with the fewest bytes: spreads every variable over all servers
    kPartitioned = 2,
    kWeighted = 3,  // as partitioned, each server in proportion to its weight
    kOwn = 4,       // by `own`
  };
  Placement(Kind of_kind = kGreedy) : kind(of_kind) {}  // NOLINT: a kind alone is a placement

  Kind kind;
  std::vector<double> weights;    // kWeighted: of server 0, 1, …
  std::vector<uint32_t> exclude;  // servers without slices; not with kOwn
  PlacementFunction own;          // kOwn
};

// Reads the `placement:` of a job: a name, or a map with `type`, `weights` and `exclude`. Throws
// std::invalid_argument with the location and the values. `own`: placement functions by their names.
Placement PlacementFromConfig(const Config& config, const std::map<std::string, PlacementFunction>& own = {});
// Whether a placement of this name exists without `own`.
bool IsPlacement(std::string_view name);

// Returns in one line why the placement is invalid for this number of servers, or ok.
Status Check(const Placement& placement, uint32_t servers);

// The server (0 … servers-1) of each slice. kInvalidArgument if Check fails, or if a custom function throws
// or returns an invalid placement.
Result<std::vector<uint32_t>> Place(const SliceTable& table, const Placement& placement, uint32_t servers);

// As above, for one of the first three kinds; cannot fail. `servers` 0 means 1.
std::vector<uint32_t> Place(const SliceTable& table, Placement::Kind kind, uint32_t servers);

// The load of each server.
struct PlacementReport {
  struct VariableBytes {
    std::string name;
    uint64_t bytes = 0;
  };
  struct Server {
    uint64_t bytes = 0;                    // values and slots
    double share = 0;                      // fraction of all bytes
    double fair = 0;                       // its intended share
    std::vector<VariableBytes> variables;  // with a part on this server, largest first
  };
  uint64_t bytes = 0;
  std::vector<Server> servers;
  // A line for each server with more than twice its fair share, with its largest variables. If twice the
  // share would be everything (two servers), the limit is its share plus half of the other's. Empty if all is
  // well.
  std::vector<std::string> warnings;
};

// `slots`: optimizer floats per element in addition to its value. `servers` and `assignment` as passed to and
// returned by Place.
PlacementReport Describe(const SliceTable& table, const Placement& placement,
                         const std::vector<uint32_t>& assignment, uint32_t servers, size_t slots);

// "1.6 MB"
std::string BytesText(uint64_t bytes);

}  // namespace leat::protocol
