// A small job of the counting model with random faults.
//
// The mixture of faults is drawn from the seed, because many bugs do not appear under the average mixture
// (swarm testing, Groce et al. 2012).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lab/sim/cluster/cluster.h"

namespace leat::sim {

// In half of the jobs without backup workers, alarms of drift raise the learning rate.
struct SwarmJob {
  uint64_t seed = 1;
  uint32_t servers = 3;
  uint32_t workers = 3;
  uint32_t slices = 8;  // minimum
  uint32_t partitions = 2;
  uint64_t events = 1500;  // per partition, on average
  protocol::StrategyConfig strategy;
  bool one_shot = false;     // ReduceOptions::one_shot
  bool fault_free = false;   // no faults
  bool late_labels = false;  // and one pass over the stream
  bool moments = false;      // with a variable of moments
  bool standby = true;       // in half of the jobs, some workers stand by
  bool elastic = false;      // two servers join and one leaves, whatever else happens
  bool paused = false;       // several times, by commands
  std::optional<MoveDeath> move_death = {};
  uint32_t replicas = 1;  // on so many servers
  bool sites = false;     // servers are in two sites with two zones each
  std::optional<ForwardDeath> forward_death = {};
};

// The options of such a job, without the hook that resumes it.
ClusterOptions SwarmOptions(const SwarmJob& job);

// Runs such a job with these options, which begin as SwarmOptions, and checks it in the same way.
ClusterResult RunSwarm(const SwarmJob& job, ClusterOptions options, Hooks hooks = {});

// Runs the job and checks that every event was counted exactly once; `error` is empty if so.
ClusterResult RunSwarm(const SwarmJob& job);

// A job whose coordinators have directories of their own, checked in the same way.
struct StandbyJob {
  uint64_t seed = 1;
  protocol::StrategyConfig strategy;
  uint64_t standbys = 1;
  uint32_t replicas = 1;   // see SwarmJob
  bool paused = false;     // see SwarmJob
  bool only_kill = false;  // the active coordinator dies once, for good, and nothing else goes wrong
  uint32_t followers = 0;  // members that follow the parameters
};
ClusterResult RunWithStandbys(const StandbyJob& job);

// A job with lanes: auto, checked in the same way. A worker is stopped, and out of reach of the coordinator.
// It is evicted, and rounds of which it has leases are made anew with fewer lanes, and with as many as before
// when another worker joins. Then it continues with its leases.
ClusterResult RunWithEvictedWorker(uint64_t seed);

}  // namespace leat::sim
