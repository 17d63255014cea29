// Places of a job's roles: the section `topology` of a job file (docs/jobs.md), with the sites, classes and
// latency that the roles need. Pure values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/config/config.h"
#include "base/status.h"
#include "protocol/topology/host_place.h"

namespace leat::topology {

struct TopologySettings {
  std::string server_site;        // empty: that of most servers
  bool servers_anywhere = false;  // slices may be in several sites
  std::string server_class;       // empty: any
  std::string worker_class;
  // The zone map: the places of hosts that do not name theirs, by host name. Empty: there is none.
  std::map<std::string, HostPlace> hosts;
  std::map<int32_t, HostPlace> brokers;  // Kafka's, by id
  // A role whose round trip to the coordinator takes longer is reported, or refused. 0: there is no limit.
  Duration max_latency{0};
  bool refuse_far = false;
  friend bool operator==(const TopologySettings&, const TopologySettings&) = default;
};

// Throws std::invalid_argument with the location and the values.
TopologySettings TopologyFromConfig(const Config& config);

// The place of a role on a host: what it says itself, and the zone map's for the rest. kInvalidArgument if
// the values are no names, or if there is a map that lacks the host.
Result<HostPlace> PlaceOf(const TopologySettings& settings, const std::string& host, const HostPlace& own);

// Why a job that runs on one host cannot run on `host`, in one line, or ok: the map has other hosts, or the
// job wants a site or class that this host does not offer.
Status CheckOneHost(const TopologySettings& settings, const std::string& host, const HostPlace& own);

// Why a role with this round trip must not join, in one line, or ok.
Status CheckDistance(const TopologySettings& settings, std::string_view role, Duration round_trip);
// "worker 3 is 45.2 ms from the coordinator, more than max_latency_ms 20"; empty: it is near enough.
std::string DistanceWarning(const TopologySettings& settings, std::string_view role, Duration round_trip);

}  // namespace leat::topology
