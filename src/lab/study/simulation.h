// Options of the cluster simulator for a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "job/job.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/study/cluster_file.h"
#include "lab/study/profile.h"

namespace leat::study {

struct SimulationSettings {
  uint64_t seed = 1;
  uint64_t steps = 0;   // batches for each worker; 0: 100, unless `events`
  uint64_t events = 0;  // length of the stream, instead of `steps`
  sim::Link link{.bytes_per_s = 1.25e8, .latency = std::chrono::microseconds(100)};  // each host's
  std::vector<double> slowness = {};                                                 // first workers' factors
  std::optional<ClusterFile> cluster = {};                                           // instead of `link`
};

// The times that a simulation needs, from a profile, or else usual ones.
struct Costs {
  sim::Distribution compute;  // time of a batch
  double first_gradient = 1.0 / 3;
  sim::MessageCost server{std::chrono::microseconds(3), 2e-10};
  sim::MessageCost worker;
  sim::MessageCost member = server;
  double event_bytes = 0, decode_s = 0;
};
// For batches of the job's size. kInvalidArgument if the profile does not fit; `name` stands for its file.
Result<Costs> CostsOf(const Profile& profile, const job::Job& job, std::string_view name);

// All but the stream. Throws std::invalid_argument if the settings do not fit the job.
sim::ClusterOptions OptionsFor(const job::Job& job, const Costs& costs, const SimulationSettings& settings);
// The stream of steps that are only modelled. Partitions hold whole pushes.
void ModelStream(const job::Job& job, const SimulationSettings& settings, sim::ClusterOptions* options);

// The speed of modelled steps in the middle of the job, as ThroughputMeter takes it, in events per second.
// Runs no longer than needed. Errors: kInternal.
Result<double> SimulatedSpeed(const sim::ClusterOptions& options, Duration warm_up, Duration measure);

}  // namespace leat::study
