// Places of a job's roles: the section `topology` of a job file (docs/jobs.md), with the sites, classes and
// latency that the roles need. Pure values.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// ---- servers and replicas, by the places of their hosts
//
// - All slices are in one site, unless the job says otherwise: every step would cross the link between sites.
// - Servers on hosts of the class that the job names for servers are preferred. They alone get slices, as
//   long as there is one.
// - A replica is in another zone of the same site, where there is one with servers. Otherwise it is on any
//   other server of the site, and never in another site.

// A job's mistake in one line, or ok: a site or class of the settings that no host of `offered` has, with
// those that there are.
Status CheckOffered(const TopologySettings& settings, const std::vector<HostPlace>& offered);

// By server: 1 if it is to have slices, or else 0 (as the weights of Balance). `current`:
// the site that has slices already, which is kept as long as it has a server.
std::vector<double> ServerWeights(const TopologySettings& settings, const std::vector<HostPlace>& servers,
                                  const std::optional<std::string>& current = {});

// [primary][server]: whether the server may have replicas of the primary's slices.
std::vector<std::vector<bool>> ReplicaServers(const std::vector<HostPlace>& servers,
                                              const std::vector<double>& weights);
// Warnings, one for each site in which replicas are in their slices' own zone, because no other has servers.
// Sites whose zones are unknown get none.
std::vector<std::string> ReplicaWarnings(const std::vector<HostPlace>& servers,
                                         const std::vector<double>& weights);

// The round trip to a peer: the least of the last few calls, because a call also takes the time that the peer
// or this process was busy. Pure state.
class RoundTrips {
 public:
  static constexpr size_t kLast = 8;

  // A call was answered after this time.
  void Add(Duration took) { last_[added_++ % kLast] = std::max(took, Duration(0)); }
  // 0: no call was answered yet.
  Duration least() const {
    const size_t known = std::min(added_, kLast);
    return known == 0 ? Duration(0)
                      : *std::min_element(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(known));
  }
  size_t added() const { return added_; }

 private:
  std::array<Duration, kLast> last_{};
  size_t added_ = 0;
};

}  // namespace leat::topology
