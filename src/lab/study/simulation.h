// Options of the cluster simulator for a job, and for clusters in words: classes of hosts, what runs on them,
// zones, input, deaths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "job/job.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/study/profile.h"

namespace leat::study {

struct HostClass {
  std::string name;
  sim::Host host;    // without its zone
  double price = 0;  // per hour
};

// Hosts of one class that run the same roles.
struct HostGroup {
  uint32_t host_class = 0;  // index in ClusterFile::classes
  uint32_t count = 1;
  uint32_t workers = 0, servers = 0;  // on each of them
  uint32_t zone = 0;                  // index in ClusterFile::zones
  topology::HostPlace place = {};     // site, zone within it, class: as roles say where they are
};

struct ClusterFile {
  std::vector<HostClass> classes;
  std::vector<HostGroup> groups;
  std::vector<std::string> zone_names;
  std::vector<sim::Link> zones;  // empty: all hosts are on one switch
  sim::Input input;
  sim::Deaths deaths;
  double disk_bytes_per_s = 0;

  // Places on all hosts.
  uint32_t PlacesOf(uint32_t HostGroup::*role) const;
  uint32_t workers() const { return PlacesOf(&HostGroup::workers); }
  uint32_t servers() const { return PlacesOf(&HostGroup::servers); }
};

// Reads `classes:`, `hosts:`, `zones:`, `input:`, `deaths:` and `disk:`. Throws std::invalid_argument with
// line and values.
ClusterFile ParseCluster(const Config& config);

// Puts the first workers and servers of the job on the hosts, in the order of the file. Throws
// std::invalid_argument if there are fewer places.
void Place(const ClusterFile& file, uint32_t workers, uint32_t servers, sim::ClusterOptions* options);

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
