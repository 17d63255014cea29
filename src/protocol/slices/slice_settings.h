// The job's settings of its slices, and their rows of the coordinator's status. Plain data. Rules are those
// settings that a job's file gives (coordinator/job_rules.h).
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "protocol/placement.h"
#include "protocol/slices.h"

namespace leat::protocol {

struct SliceRules {
  Placement placement;
  // 2: each slice also has a replica on another server, as long as there is one.
  uint32_t replicas = 1;
};

struct SliceSettings : SliceRules {
  SliceTable table;
  uint32_t servers = 1;  // required before slices are placed
  // At most so many hold slices; further ones are spares. Slices move to servers that join later. 0: as many
  // as `servers`.
  uint32_t max_servers = 0;
  // Slices of a lost server move to a spare at once, or to the next server that joins; after this time, to
  // the remaining servers.
  Duration server_wait = std::chrono::seconds(2);
};

struct SliceRows {
  // Slices that move between servers.
  struct Moves {
    uint64_t planned = 0;                        // slices that are still to be moved
    uint64_t slices = 0, bytes = 0, failed = 0;  // since the start: moved, their values, moves given up
    std::vector<NodeId> draining;                // servers that leave once they hold none
  } moves;
  uint32_t replicas = 1;    // SliceRules::replicas
  uint64_t replicated = 0;  // slices that have a replica at present
  // How many of them are on one server (first) with their replica on another.
  std::map<std::pair<NodeId, NodeId>, uint64_t> replica_servers;
};

}  // namespace leat::protocol
