#include "protocol/topology/server_hosts.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"

namespace leat::topology {

namespace {

// Servers in other zones of the primary's site that have slices.
bool HasOtherZone(const std::vector<HostPlace>& servers, const std::vector<double>& weights, size_t primary) {
  for (size_t s = 0; s < servers.size(); ++s) {
    if (weights[s] > 0 && OtherZoneOfSite(servers[primary], servers[s])) return true;
  }
  return false;
}

}  // namespace

Status CheckOffered(std::string HostPlace::*part, const std::string& wanted,
                    const std::vector<HostPlace>& offered) {
  if (wanted.empty()) return {};
  std::set<std::string> there;
  for (const HostPlace& place : offered) {
    if (!(place.*part).empty()) there.insert(place.*part);
  }
  if (there.contains(wanted)) return {};
  const std::string list = Joined(there);
  return {Code::kInvalidArgument, std::string("no host offers the ") +
                                      (part == &HostPlace::site ? "site" : "class") + " '" + wanted +
                                      "'; there " + (list.empty() ? "is none" : "are: " + list)};
}

Status CheckOffered(const TopologySettings& settings, const std::vector<HostPlace>& offered) {
  LEAT_RETURN_IF_ERROR(CheckOffered(&HostPlace::site, settings.server_site, offered));
  LEAT_RETURN_IF_ERROR(CheckOffered(&HostPlace::host_class, settings.server_class, offered));
  return CheckOffered(&HostPlace::host_class, settings.worker_class, offered);
}

std::optional<std::string> ServerSite(const TopologySettings& settings, const std::vector<HostPlace>& servers,
                                      const std::optional<std::string>& current) {
  if (settings.servers_anywhere) return std::nullopt;
  if (!settings.server_site.empty()) return settings.server_site;
  std::map<std::string, size_t> counts;
  for (const HostPlace& place : servers) ++counts[place.site];
  if (counts.empty()) return std::nullopt;
  if (current && counts.contains(*current)) return current;
  // The first by name of equals.
  return std::ranges::max_element(counts, {}, [](const auto& site) { return site.second; })->first;
}

std::vector<double> ServerWeights(const TopologySettings& settings, const std::vector<HostPlace>& servers,
                                  const std::optional<std::string>& current) {
  const auto site = ServerSite(settings, servers, current);
  std::vector<double> weights(servers.size(), 0);
  bool preferred = false;
  for (size_t s = 0; s < servers.size(); ++s) {
    if (site && servers[s].site != *site) continue;
    weights[s] = 1;
    preferred |= !settings.server_class.empty() && servers[s].host_class == settings.server_class;
  }
  for (size_t s = 0; preferred && s < servers.size(); ++s) {
    if (servers[s].host_class != settings.server_class) weights[s] = 0;
  }
  return weights;
}

std::vector<std::vector<bool>> ReplicaServers(const std::vector<HostPlace>& servers,
                                              const std::vector<double>& weights) {
  std::vector<std::vector<bool>> allowed(servers.size(), std::vector<bool>(servers.size()));
  for (size_t primary = 0; primary < servers.size(); ++primary) {
    const bool apart = HasOtherZone(servers, weights, primary);
    for (size_t s = 0; s < servers.size(); ++s) {
      allowed[primary][s] =
          s != primary && weights[s] > 0 &&
          (apart ? OtherZoneOfSite(servers[primary], servers[s]) : SameSite(servers[primary], servers[s]));
    }
  }
  return allowed;
}

std::vector<std::string> ReplicaWarnings(const std::vector<HostPlace>& servers,
                                         const std::vector<double>& weights) {
  std::set<std::string> sites;
  for (size_t s = 0; s < servers.size(); ++s) {
    if (weights[s] > 0 && !servers[s].zone.empty() && !HasOtherZone(servers, weights, s))
      sites.insert(servers[s].site);
  }
  std::vector<std::string> warnings;
  for (const std::string& site : sites) {
    warnings.push_back("replicas are in the zone of their slices: " +
                       (site.empty() ? std::string("there are") : "site '" + site + "' has") +
                       " servers in one zone only");
  }
  return warnings;
}

}  // namespace leat::topology
