// Which servers get slices, and which get the replicas of which others, by the places of their hosts. Pure
// functions.
//
// - All slices are in one site, unless the job says otherwise: every step would cross the link between sites.
// - Servers on hosts of the class that the job names for servers are preferred. They alone get slices, as
//   long as there is one.
// - A replica is in another zone of the same site, where there is one with servers. Otherwise it is on any
//   other server of the site, and never in another site.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/topology/host_place.h"
#include "protocol/topology/topology_settings.h"

namespace leat::topology {

// A job's mistake in one line, or ok: a site or class that no host of `offered` has, with those that there
// are. `part` is site or host_class; an empty name is ok.
Status CheckOffered(std::string HostPlace::*part, const std::string& wanted,
                    const std::vector<HostPlace>& offered);
// All that the settings name.
Status CheckOffered(const TopologySettings& settings, const std::vector<HostPlace>& offered);

// The site of the slices; none: everywhere, or there are no servers. `current`: the site that has slices
// already, which is kept as long as it has a server, because another one would move them all.
std::optional<std::string> ServerSite(const TopologySettings& settings, const std::vector<HostPlace>& servers,
                                      const std::optional<std::string>& current = {});

// By server: 1 if it is to have slices, or else 0 (as the weights of Balance and ReplicaBalance).
std::vector<double> ServerWeights(const TopologySettings& settings, const std::vector<HostPlace>& servers,
                                  const std::optional<std::string>& current = {});

// [primary][server]: whether the server may have replicas of the primary's slices.
std::vector<std::vector<bool>> ReplicaServers(const std::vector<HostPlace>& servers,
                                              const std::vector<double>& weights);
// Warnings, one for each site in which replicas are in their slices' own zone, because no other has servers.
// Sites whose zones are unknown get none.
std::vector<std::string> ReplicaWarnings(const std::vector<HostPlace>& servers,
                                         const std::vector<double>& weights);

}  // namespace leat::topology
