#include "protocol/topology/topology_settings.h"

#include <chrono>
#include <set>
#include <utility>

#include "base/text.h"

namespace leat::topology {

// ---- places

Status CheckPlaceName(std::string_view what, std::string_view value) {
  if (value.empty()) return {};
  if (IsWord(value, HostPlace::kMaxBytes, "-_.") && IsLetterOrDigit(value.front()) &&
      IsLetterOrDigit(value.back()))
    return {};
  std::string shown(value.substr(0, HostPlace::kMaxBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return {Code::kInvalidArgument,
          std::string(what) + " '" + shown + "' is no name: at most " + std::to_string(HostPlace::kMaxBytes) +
              " letters, digits, '-', '_' and '.', with a letter or digit at both ends"};
}

Status Check(const HostPlace& place) {
  LEAT_RETURN_IF_ERROR(CheckPlaceName("site", place.site));
  LEAT_RETURN_IF_ERROR(CheckPlaceName("zone", place.zone));
  return CheckPlaceName("class", place.host_class);
}

Result<HostPlace> MakeHostPlace(const PlaceSettings& options, const PlaceSettings& environment) {
  HostPlace place;
  struct Part {
    const char *option, *variable;
    std::string PlaceSettings::*setting;
    std::string HostPlace::*value;
  };
  for (const Part& part :
       std::array<Part, 3>{{{"--site", "LEAT_SITE", &PlaceSettings::site, &HostPlace::site},
                            {"--zone", "LEAT_ZONE", &PlaceSettings::zone, &HostPlace::zone},
                            {"--class", "LEAT_CLASS", &PlaceSettings::host_class, &HostPlace::host_class}}}) {
    const bool given = !(options.*part.setting).empty();
    place.*part.value = given ? options.*part.setting : environment.*part.setting;
    LEAT_RETURN_IF_ERROR(CheckPlaceName(given ? part.option : part.variable, place.*part.value));
  }
  return place;
}

std::string PlaceText(const HostPlace& place) {
  if (place == HostPlace()) return "a host without a site";
  std::string text = place.site.empty() ? "(no site)" : place.site;
  if (!place.zone.empty()) text += "/" + place.zone;
  if (!place.host_class.empty()) text += " (" + place.host_class + ")";
  return text;
}

// ---- settings

namespace {

std::string NameFrom(const Config& map, const char* key) {
  if (!map.Has(key)) return "";
  std::string name = map.At(key).String();
  if (name.empty()) map.At(key).Fail(std::string(key) + " is empty");
  if (const Status good = CheckPlaceName(key, name); !good.ok()) map.At(key).Fail(good.message());
  return name;
}

HostPlace PlaceFrom(const Config& map) {
  map.Allow({"site", "zone", "class"});
  return {NameFrom(map, "site"), NameFrom(map, "zone"), NameFrom(map, "class")};
}

// A job's mistake in one line, or ok: a site or class that no host of `offered` has, with those that there
// are. `part` is site or host_class; an empty name is ok.
Status CheckPartOffered(std::string HostPlace::*part, const std::string& wanted,
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

// A host that the zone map lacks does not join, so what none of its hosts has is a mistake; unless they leave
// it to the hosts themselves.
void CheckInMap(const Config& section, const char* key, const std::string& wanted,
                const TopologySettings& settings, std::string HostPlace::*part) {
  std::vector<HostPlace> offered;
  for (const auto& [host, place] : settings.hosts) {
    if (!(place.*part).empty()) offered.push_back(place);
  }
  if (offered.empty()) return;
  if (const Status there = CheckPartOffered(part, wanted, offered); !there.ok())
    section.At(key).Fail(there.message());
}

std::string Milliseconds(Duration duration) {
  return Formatted("%.4g", std::chrono::duration<double, std::milli>(duration).count());
}

// The site of the slices; none: everywhere, or there are no servers. `current`: the site that has slices
// already, which is kept as long as it has a server, because another one would move them all.
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

// Servers in other zones of the primary's site that have slices.
bool HasOtherZone(const std::vector<HostPlace>& servers, const std::vector<double>& weights, size_t primary) {
  for (size_t s = 0; s < servers.size(); ++s) {
    if (weights[s] > 0 && OtherZoneOfSite(servers[primary], servers[s])) return true;
  }
  return false;
}

}  // namespace

TopologySettings TopologyFromConfig(const Config& config) {
  config.Allow({"servers", "workers", "hosts", "brokers", "max_latency_ms", "far"});
  TopologySettings settings;
  if (config.Has("hosts")) {
    const Config hosts = config.At("hosts");
    for (const std::string& host : hosts.Keys()) settings.hosts[host] = PlaceFrom(hosts.At(host));
    if (settings.hosts.empty()) hosts.Fail("hosts is empty: no role could join");
  }
  if (config.Has("servers")) {
    const Config servers = config.At("servers");
    servers.Allow({"site", "class"});
    settings.server_site = NameFrom(servers, "site");
    settings.server_class = NameFrom(servers, "class");
    if (settings.server_site == "any") {
      settings.server_site.clear();
      settings.servers_anywhere = true;
    }
    CheckInMap(servers, "site", settings.server_site, settings, &HostPlace::site);
    CheckInMap(servers, "class", settings.server_class, settings, &HostPlace::host_class);
  }
  if (config.Has("workers")) {
    const Config workers = config.At("workers");
    workers.Allow({"class"});
    settings.worker_class = NameFrom(workers, "class");
    CheckInMap(workers, "class", settings.worker_class, settings, &HostPlace::host_class);
  }
  if (config.Has("brokers")) {
    const Config brokers = config.At("brokers");
    for (const std::string& key : brokers.Keys()) {
      const int32_t id = ToNumber<int32_t>(key).value_or(-1);
      if (id < 0) brokers.At(key).Fail("'" + key + "' is no id of a broker");
      settings.brokers[id] = PlaceFrom(brokers.At(key));
    }
  }
  settings.max_latency = FromSeconds(config.Number("max_latency_ms", 0, 0, 60'000) / 1e3);
  if (config.Has("far")) {
    settings.refuse_far = config.At("far").OneOf("far", {"report", "refuse"}) == "refuse";
    if (settings.max_latency == Duration(0)) config.At("far").Fail("far needs max_latency_ms");
  }
  return settings;
}

Result<HostPlace> PlaceOf(const TopologySettings& settings, const std::string& host, const HostPlace& own) {
  LEAT_RETURN_IF_ERROR(Check(own));
  if (settings.hosts.empty()) return own;
  const auto at = settings.hosts.find(host);
  if (at == settings.hosts.end()) {
    return Status(Code::kInvalidArgument, "host '" + host +
                                              "' is not in the job's zone map (topology: hosts), which has " +
                                              std::to_string(settings.hosts.size()) + " hosts");
  }
  HostPlace place = at->second;
  if (!own.site.empty()) place.site = own.site;
  if (!own.zone.empty()) place.zone = own.zone;
  if (!own.host_class.empty()) place.host_class = own.host_class;
  return place;
}

Status CheckOneHost(const TopologySettings& settings, const std::string& host, const HostPlace& own) {
  LEAT_ASSIGN_OR_RETURN(const HostPlace place, PlaceOf(settings, host, own));
  for (const auto& [other, other_place] : settings.hosts) {
    if (other == host) continue;
    return {Code::kInvalidArgument, "the job's zone map (topology: hosts) has host '" + other +
                                        "', and all roles of this job would be on '" + host + "'"};
  }
  return CheckOffered(settings, {place});
}

Status CheckDistance(const TopologySettings& settings, std::string_view role, Duration round_trip) {
  if (!settings.refuse_far) return {};
  std::string why = DistanceWarning(settings, role, round_trip);
  return why.empty() ? Status() : Status(Code::kInvalidArgument, std::move(why));
}

std::string DistanceWarning(const TopologySettings& settings, std::string_view role, Duration round_trip) {
  if (settings.max_latency == Duration(0) || round_trip <= settings.max_latency) return "";
  return std::string(role) + " is " + Milliseconds(round_trip) +
         " ms from the coordinator (round trip), more than max_latency_ms " +
         Milliseconds(settings.max_latency);
}

// ---- servers and replicas

Status CheckOffered(const TopologySettings& settings, const std::vector<HostPlace>& offered) {
  LEAT_RETURN_IF_ERROR(CheckPartOffered(&HostPlace::site, settings.server_site, offered));
  LEAT_RETURN_IF_ERROR(CheckPartOffered(&HostPlace::host_class, settings.server_class, offered));
  return CheckPartOffered(&HostPlace::host_class, settings.worker_class, offered);
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
