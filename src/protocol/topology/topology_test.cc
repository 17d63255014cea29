#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/rng.h"
#include "protocol/topology/host_place.h"
#include "protocol/topology/near_partitions.h"
#include "protocol/topology/topology_settings.h"

namespace leat::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const HostPlace kNorthA{"north", "a", "bandwidth"}, kNorthB{"north", "b", "cores"},
    kSouthA{"south", "a", "bandwidth"}, kSouthB{"south", "b", "cores"};

TEST(HostPlace, OptionsComeBeforeTheEnvironment) {
  const auto place = MakeHostPlace({"north", "", ""}, {"south", "b", "cores"});
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(*place, (HostPlace{"north", "b", "cores"}));
  EXPECT_EQ(PlaceText(*place), "north/b (cores)");
  EXPECT_EQ(PlaceText({}), "a host without a site");
}

TEST(HostPlace, NamesAreChecked) {
  EXPECT_THAT(MakeHostPlace({"no rth", "", ""}, {}).status().message(), HasSubstr("--site 'no rth'"));
  EXPECT_THAT(MakeHostPlace({}, {"", "-a", ""}).status().message(), HasSubstr("LEAT_ZONE '-a'"));
  EXPECT_TRUE(Check({std::string(63, 'x'), "eu-west_1.a", "7"}).ok());
  EXPECT_EQ(Check({std::string(64, 'x'), "", ""}).code(), Code::kInvalidArgument);
  EXPECT_THAT(Check({"", "", "a\nb"}).message(), HasSubstr("class 'a?b'"));
}

TEST(HostPlace, ZonesBelongToASite) {
  EXPECT_TRUE(OtherZoneOfSite(kNorthA, kNorthB));
  EXPECT_FALSE(OtherZoneOfSite(kNorthA, kSouthB));
  EXPECT_FALSE(SameZone(kNorthA, kSouthA));
  EXPECT_TRUE(SameZone(kNorthA, kNorthA));
  const HostPlace unknown{"north", "", ""};
  EXPECT_FALSE(OtherZoneOfSite(kNorthA, unknown));
  EXPECT_FALSE(SameZone(unknown, unknown));
  EXPECT_TRUE(SameSite({}, {}));
}

TEST(ServerHosts, WhatNobodyOffersIsNamedWithWhatThereIs) {
  const std::vector<HostPlace> offered{kNorthA, kSouthB};
  EXPECT_TRUE(CheckOffered({.server_site = "north", .server_class = "bandwidth"}, offered).ok());
  EXPECT_EQ(CheckOffered({.worker_class = "gpu"}, offered).message(),
            "no host offers the class 'gpu'; there are: bandwidth, cores");
  EXPECT_EQ(CheckOffered({.server_site = "east"}, {{}}).message(),
            "no host offers the site 'east'; there is none");
}

TEST(ServerHosts, AllSlicesAreInTheSiteOfMostServers) {
  const std::vector<HostPlace> servers{kNorthA, kSouthA, kSouthB};
  EXPECT_THAT(ServerWeights({}, servers), ElementsAre(0, 1, 1));
  EXPECT_THAT(ServerWeights({}, servers, "north"), ElementsAre(1, 0, 0)) << "the slices stay where they are";
  EXPECT_THAT(ServerWeights({}, servers, "east"), ElementsAre(0, 1, 1)) << "no server of theirs is left";
  EXPECT_THAT(ServerWeights({.server_site = "north"}, servers), ElementsAre(1, 0, 0));
  EXPECT_THAT(ServerWeights({.servers_anywhere = true}, servers), ElementsAre(1, 1, 1));
  EXPECT_THAT(ServerWeights({}, {kSouthA, kNorthA}), ElementsAre(0, 1)) << "the first name of equals";
  EXPECT_THAT(ServerWeights({}, {{}, {}}), ElementsAre(1, 1));
  EXPECT_THAT(ServerWeights({}, {}), IsEmpty());
}

TEST(ServerHosts, AClassIsPreferred) {
  EXPECT_THAT(ServerWeights({.server_class = "bandwidth"}, {kNorthA, kNorthB}), ElementsAre(1, 0));
  EXPECT_THAT(ServerWeights({.server_class = "bandwidth"}, {kNorthB, kNorthB, kSouthA}), ElementsAre(1, 1, 0))
      << "without one of it in the site, any of the site";
}

TEST(ServerHosts, AReplicaIsInAnotherZoneOfTheSite) {
  const std::vector<HostPlace> servers{kNorthA, kNorthA, kNorthB, kSouthA, kSouthB};
  const std::vector<double> all(5, 1);
  EXPECT_THAT(ReplicaServers(servers, all)[0], ElementsAre(false, false, true, false, false));
  EXPECT_THAT(ReplicaServers(servers, all)[2], ElementsAre(true, true, false, false, false));
  EXPECT_THAT(ReplicaWarnings(servers, all), IsEmpty());
  const std::vector<double> one_zone{1, 1, 0, 1, 1};
  EXPECT_THAT(ReplicaServers(servers, one_zone)[0], ElementsAre(false, true, false, false, false));
  EXPECT_THAT(ReplicaWarnings(servers, one_zone),
              ElementsAre(HasSubstr("site 'north' has servers in one zone")));
  EXPECT_THAT(ReplicaWarnings({{}, {}}, {1, 1}), IsEmpty()) << "nothing is known of zones";
}

TEST(NearPartitions, DistanceIsToTheClosestCopy) {
  EXPECT_EQ(DistanceTo(kNorthA, {kSouthA, kNorthB}), Distance::kSite);
  EXPECT_EQ(DistanceTo(kNorthA, {kNorthB, kNorthA}), Distance::kZone);
  EXPECT_EQ(DistanceTo(kNorthA, {kSouthA}), Distance::kFar);
  EXPECT_EQ(DistanceTo(kNorthA, {}), Distance::kZone);
}

TEST(NearPartitions, WorkersReadThoseOfTheirZone) {
  EXPECT_THAT(NearPartitions({kNorthA, kNorthB}, {{kNorthB}, {kNorthA}, {kNorthB}, {kNorthA}}),
              ElementsAre(1, 0, 1, 0));
  // Even shares come first.
  const auto shares = NearPartitions({kNorthA, kNorthB}, {{kNorthA}, {kNorthA}, {kNorthA}, {kNorthA}});
  EXPECT_EQ(std::ranges::count(shares, 0u), 2);
  EXPECT_THAT(NearPartitions({}, {{kNorthA}}), IsEmpty());
  EXPECT_THAT(NearPartitions({kNorthA}, {}), IsEmpty());
}

TEST(NearPartitions, PartitionsStayWhereThatCostsNoDistance) {
  const std::vector<PartitionPlaces> nowhere(4);
  EXPECT_THAT(NearPartitions({kNorthA, kNorthB}, nowhere, {1, 0, 0, 1}), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(NearPartitions({kNorthA, kNorthB}, {{kNorthA}, {kNorthB}}, {1, 0}), ElementsAre(0, 1));
  const auto joined = NearPartitions({kNorthA, kNorthA, kNorthA}, nowhere, {0, 0, 1, 1});
  EXPECT_EQ(std::ranges::count(joined, 2u), 1) << "one moves to the worker that has joined";
}

// Against all even assignments of small jobs.
TEST(NearPartitions, NoEvenAssignmentIsNearer) {
  const HostPlace places[] = {kNorthA, kNorthB, kSouthA, kSouthB};
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    std::vector<HostPlace> workers(1 + rng.Below(3));
    for (auto& worker : workers) worker = places[rng.Below(4)];
    std::vector<PartitionPlaces> partitions(rng.Below(6));
    for (auto& copies : partitions) {
      for (size_t n = rng.Below(3); n > 0; --n) copies.push_back(places[rng.Below(4)]);
    }
    // {far, in another zone}; uneven: {partitions + 1, 0}
    const auto cost = [&](const std::vector<uint32_t>& assigned) {
      std::vector<size_t> shares(workers.size());
      std::pair<size_t, size_t> sum;
      for (size_t p = 0; p < assigned.size(); ++p) {
        ++shares[assigned[p]];
        const Distance distance = DistanceTo(workers[assigned[p]], partitions[p]);
        sum.first += distance == Distance::kFar;
        sum.second += distance == Distance::kSite;
      }
      const auto [least, most] = std::ranges::minmax(shares);
      return most > least + 1 ? std::pair(partitions.size() + 1, size_t{0}) : sum;
    };
    const auto found = cost(NearPartitions(workers, partitions));
    std::vector<uint32_t> assigned(partitions.size());
    std::function<void(size_t)> every = [&](size_t p) {
      if (p == partitions.size()) {
        EXPECT_LE(found, cost(assigned)) << "seed " << seed;
        return;
      }
      for (assigned[p] = 0; assigned[p] < workers.size(); ++assigned[p]) every(p + 1);
    };
    every(0);
  }
}

}  // namespace
}  // namespace leat::topology
