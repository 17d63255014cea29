// Servers in two sites of two zones: whatever goes wrong, all slices are in one site, and every replica is in
// another zone of it, or soon will be.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/testing.h"
#include "lab/sim/swarm.h"

namespace leat::sim {
namespace {

using Kind = protocol::StrategyKind;
using protocol::CoordinatorStatus;
using topology::HostPlace;

std::map<NodeId, HostPlace> PlacesIn(const CoordinatorStatus& status) {
  std::map<NodeId, HostPlace> places;
  for (const auto& where : status.whereabouts) places[where.node] = where.place;
  return places;
}

struct Seen {
  size_t looks = 0;
  size_t in_two_sites = 0;   // looks at which slices were in two sites
  size_t in_other_site = 0;  // replicas in another site than their slice
};

void Look(const CoordinatorStatus& status, Seen* seen) {
  const auto places = PlacesIn(status);
  std::set<std::string> sites;
  for (const protocol::SliceLocation& slice : status.view.slices) {
    if (const auto at = places.find(slice.server); at != places.end()) sites.insert(at->second.site);
  }
  ++seen->looks;
  if (sites.size() > 1) ++seen->in_two_sites;
  for (const auto& [servers, count] : status.replica_servers) {
    const auto from = places.find(servers.first), to = places.find(servers.second);
    if (from == places.end() || to == places.end()) continue;
    if (!topology::SameSite(from->second, to->second)) seen->in_other_site += count;
  }
}

// Replicas in the zone of their slice, although another zone of the site has a server.
uint64_t InOneZone(const CoordinatorStatus& status) {
  const auto places = PlacesIn(status);
  uint64_t slices = 0;
  for (const auto& [servers, count] : status.replica_servers) {
    const auto from = places.find(servers.first), to = places.find(servers.second);
    if (from == places.end() || to == places.end() || !topology::SameZone(from->second, to->second)) continue;
    for (const protocol::Member& member : status.view.members) {
      const auto other = places.find(member.node);
      if (member.role != protocol::Role::kServer || other == places.end()) continue;
      if (!topology::OtherZoneOfSite(from->second, other->second)) continue;
      slices += count;
      break;
    }
  }
  return slices;
}

class Sites : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(Sim, Sites, ::testing::Values(Kind::kAsync, Kind::kSync, Kind::kAveraging),
                         [](const auto& test) { return std::string(protocol::Name(test.param)); });

TEST_P(Sites, SlicesAndReplicasStayInOneSite) {
  // Another replica takes the place of one that a lost server, or a slice that moves, has left in one zone
  // with its slice.
  constexpr Duration kRepair = std::chrono::seconds(3);
  size_t deaths = 0, repairs = 0;
  for (uint64_t seed = 1; seed <= SeedsOf(40, 8); ++seed) {
    SwarmJob job{.seed = seed,
                 .servers = 6,
                 .strategy = {.kind = GetParam(), .lanes = 3, .period = 2},
                 .fault_free = true,
                 .standby = false,
                 .replicas = 2};
    ClusterOptions options = SwarmOptions(job);
    // Two sites with two zones each.
    options.server_places = {{"north", "a", ""}, {"south", "a", ""}, {"north", "b", ""}, {"south", "b", ""}};
    options.max_servers = 2 * job.servers;
    // Servers die one after the other, and are started again a second later.
    for (uint32_t i = 0; i < 3; ++i) {
      options.plan.push_back({.what = PlannedFault::What::kKill,
                              .at = std::chrono::milliseconds(1500 + 1000 * i),
                              .index = static_cast<uint32_t>((seed + i) % 6),
                              .replaced = true});
      options.plan.back().role = protocol::Role::kServer;
    }
    Seen seen;
    std::optional<Time> misplaced_since;
    Duration longest{0};
    Hooks hooks;
    hooks.watch_every = std::chrono::milliseconds(50);
    hooks.watch = [&](const Cluster& cluster) {
      const CoordinatorStatus status = cluster.status();
      Look(status, &seen);
      if (InOneZone(status) == 0) {
        repairs += misplaced_since.has_value();
        misplaced_since.reset();
        return true;
      }
      if (!misplaced_since) misplaced_since = cluster.now();
      longest = std::max(longest, cluster.now() - *misplaced_since);
      return true;
    };
    const ClusterResult result = RunSwarm(job, options, hooks);
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_GT(seen.looks, 50u);
    EXPECT_EQ(seen.in_two_sites, 0u) << "seed " << seed;
    EXPECT_EQ(seen.in_other_site, 0u) << "seed " << seed;
    EXPECT_LT(longest, kRepair) << "seed " << seed;
    deaths += result.deaths;
  }
  EXPECT_GT(deaths, SeedsOf(40, 8));
  EXPECT_GT(repairs, 0u);
}

}  // namespace
}  // namespace leat::sim
