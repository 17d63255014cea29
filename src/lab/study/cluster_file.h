// Clusters in words: classes of hosts, what runs on them, zones, input, deaths.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "lab/sim/cluster/cluster.h"

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

  uint32_t workers() const;  // places for them
  uint32_t servers() const;
};

// Reads `classes:`, `hosts:`, `zones:`, `input:`, `deaths:` and `disk:`. Throws std::invalid_argument with
// line and values.
ClusterFile ParseCluster(const Config& config);

// Puts the first workers and servers of the job on the hosts, in the order of the file. Throws
// std::invalid_argument if there are fewer places.
void Place(const ClusterFile& file, uint32_t workers, uint32_t servers, sim::ClusterOptions* options);

// The price per hour of the hosts that then have a role.
double PricePerHour(const ClusterFile& file, uint32_t workers, uint32_t servers);

}  // namespace leat::study
