#include "protocol/topology/topology_settings.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/text.h"
#include "protocol/topology/server_hosts.h"

namespace leat::topology {

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

// A host that the zone map lacks does not join, so what none of its hosts has is a mistake; unless they leave
// it to the hosts themselves.
void CheckInMap(const Config& section, const char* key, const std::string& wanted,
                const TopologySettings& settings, std::string HostPlace::*part) {
  std::vector<HostPlace> offered;
  for (const auto& [host, place] : settings.hosts) {
    if (!(place.*part).empty()) offered.push_back(place);
  }
  if (offered.empty()) return;
  if (const Status there = CheckOffered(part, wanted, offered); !there.ok())
    section.At(key).Fail(there.message());
}

std::string Milliseconds(Duration duration) {
  return Formatted("%.4g", std::chrono::duration<double, std::milli>(duration).count());
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

}  // namespace leat::topology
