// Random jobs with random faults, one for each seed: what `leat simulate --faults` runs.
//
// A job of the counting model is drawn with its strategy, members and stream, and with the kinds of faults
// that it meets and how often. Each property is a row of a table in fault_job.cc, and is drawn from numbers
// of its own, so that a new row changes nothing else of a seed.
#pragma once

#include <cstdint>
#include <string>

#include "lab/sim/cluster/cluster.h"
#include "lab/sim/swarm.h"

namespace leat::sim {

struct FaultJob {
  SwarmJob job;
  ClusterOptions options;
  // Describes the job in a line: "sync with 4 lanes, 3 servers, 2 workers, …".
  std::string Describe() const;
};

// A pure function of the seed.
FaultJob DrawFaultJob(uint64_t seed);

struct FaultOutcome {
  std::string error;  // empty: every event was counted once, and no invariant was violated
  // Events that some slice lacks, or has too often. A job that ends early, because another invariant is
  // violated, has neither.
  uint64_t lost = 0, twice = 0;
  ClusterResult result;
  // Digest of everything that the run has counted: two runs of a seed have the same.
  uint64_t digest = 0;
};

FaultOutcome RunFaultJob(uint64_t seed, Hooks hooks = {});

}  // namespace leat::sim
