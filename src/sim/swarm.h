// A small job of the counting model in which everything goes wrong that a seed can think of.
//
// The mixture of faults is drawn from the seed: many bugs hide from the average mixture (Groce et al. 2012,
// swarm testing).
#pragma once

#include <cstdint>
#include <string>

#include "sim/cluster/cluster.h"

namespace leat::sim {

struct SwarmJob {
  uint64_t seed = 1;
  uint32_t servers = 3;
  uint32_t workers = 3;
  uint32_t slices = 8;  // at least
  uint32_t partitions = 2;
  uint64_t events = 1500;  // of each partition, on average
  protocol::StrategyConfig strategy;
  bool one_shot = false;    // ReduceOptions::one_shot
  bool fault_free = false;  // nothing goes wrong
};

// The options of such a job, without the hook by which it is resumed.
ClusterOptions SwarmOptions(const SwarmJob& job);

// Runs it and looks whether every event has counted exactly once: `error` is empty when it has.
ClusterResult RunSwarm(const SwarmJob& job);

}  // namespace leat::sim
