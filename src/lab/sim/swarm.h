// Small jobs of the counting model with random faults; what `leat simulate --faults` runs.
//
// The mixture of faults is drawn from the seed, because many bugs do not appear under the average mixture
// (swarm testing, Groce et al. 2012).
#pragma once

#include <cstdint>
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
  uint32_t replicas = 1;     // on so many servers
};

// The options of such a job, without the hook that resumes it.
ClusterOptions SwarmOptions(const SwarmJob& job);

// Runs such a job with these options, which begin as SwarmOptions, and checks that every event was counted
// exactly once; `error` is empty if so.
ClusterResult RunSwarm(const SwarmJob& job, ClusterOptions options, Hooks hooks = {});
inline ClusterResult RunSwarm(const SwarmJob& job) {
  return RunSwarm(job, SwarmOptions(job));
}

// Runs any job of the counting model, and checks it in the same way.
ClusterResult RunCounting(const ClusterOptions& options, Hooks hooks = {});

// A random job that a seed draws: with the strategy, the members and the stream, and with the kinds of faults
// that it meets and how often. Each property is a row of a table in swarm.cc, and is drawn from numbers of
// its own, so that a new row changes nothing else of a seed.
struct FaultJob {
  SwarmJob job;
  ClusterOptions options;
  // Describes the job in a line: "sync with 4 lanes, 3 servers, 2 workers, …".
  std::string Describe() const;
};

// A pure function of the seed.
FaultJob DrawFaultJob(uint64_t seed);

ClusterResult RunFaultJob(uint64_t seed, Hooks hooks = {});
// A digest of everything that a run has counted: two runs of a seed have the same.
uint64_t DigestOf(const ClusterResult& result);

}  // namespace leat::sim
