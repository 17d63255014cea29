// Slices on two servers: whichever of them dies, at any point, nothing is lost, counted twice or trained
// again.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"
#include "lab/sim/counting.h"
#include "lab/sim/testing.h"

namespace leat::sim {
namespace {

using Kind = protocol::StrategyKind;
using What = PlannedFault::What;
using protocol::Role;
using std::chrono::milliseconds;

constexpr uint64_t kReplicaSeeds = SeedsOf(80, 20), kReplicaLongSeeds = SeedsOf(1000, 6);
constexpr int kDeaths = SeedsOf(3);

struct ReplicasCase {
  std::string name;
  protocol::StrategyConfig strategy;
};

void PrintTo(const ReplicasCase& c, std::ostream* out) {
  *out << c.name;
}

class Replicas : public ::testing::TestWithParam<ReplicasCase> {
 protected:
  SwarmJob Job(uint64_t seed) const {
    return {.seed = seed, .strategy = GetParam().strategy, .fault_free = true, .replicas = 2};
  }
  // The slices were never restored, and no split was leased again.
  static void ExpectNothingAgain(const ClusterResult& result, const std::string& what) {
    EXPECT_EQ(result.error, "") << what;
    EXPECT_EQ(result.regranted_leases, 0u) << what << ": something was trained again";
    EXPECT_EQ(result.loads, 0u) << what << ": a slice came from a checkpoint";
  }
  // All slices have replicas, and half of the stream has come.
  static constexpr Time kSettled = std::chrono::milliseconds(4000);
};

INSTANTIATE_TEST_SUITE_P(
    Sim, Replicas,
    ::testing::Values(ReplicasCase{"async", {.kind = Kind::kAsync}},
                      ReplicasCase{"downpour", {.kind = Kind::kDownpour, .n_push = 3, .n_fetch = 2}},
                      ReplicasCase{"sync", {.kind = Kind::kSync, .lanes = 4}},
                      ReplicasCase{"ssp_3", {.kind = Kind::kSsp, .lanes = 4, .staleness = 3}},
                      ReplicasCase{"backup", {.kind = Kind::kSync, .lanes = 4, .backup = 1}},
                      ReplicasCase{"sync_auto", {.kind = Kind::kSync, .lanes = 4, .auto_lanes = true}},
                      ReplicasCase{"averaging", {.kind = Kind::kAveraging, .lanes = 4, .period = 3}}),
    [](const auto& test) { return test.param.name; });

TEST_P(Replicas, EverySliceHasOneInPeace) {
  for (uint64_t seed = 1; seed <= SeedsOf(8); ++seed) {
    const ClusterResult result = RunSwarm(Job(seed));
    ExpectNothingAgain(result, "seed " + std::to_string(seed));
    EXPECT_EQ(result.duplicates, 0u) << "seed " << seed;
    EXPECT_GT(result.forwards, 100u) << "seed " << seed;
    EXPECT_GT(result.replicated, 7u) << "seed " << seed;
    EXPECT_LT(Seconds(result.took), GetParam().strategy.stepped() ? 20 : 8) << "seed " << seed;
  }
}

TEST_P(Replicas, CountEveryEventOnceWhateverGoesWrong) {
  ClusterResult all;
  const uint64_t seeds = LongTier() ? kReplicaLongSeeds : kReplicaSeeds;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SwarmJob job = Job(seed);
    job.fault_free = false;
    const ClusterResult result = RunSwarm(job);
    EXPECT_EQ(result.error, "") << "seed " << seed;
    all.deaths += result.deaths;
    all.forwards += result.forwards;
    all.promotions += result.promotions;
  }
  EXPECT_GT(all.deaths, seeds);
  EXPECT_GT(all.forwards, 10 * seeds);
  if (seeds >= 80) {
    EXPECT_GT(all.promotions, seeds / 4);
  }
}

TEST_P(Replicas, NothingIsTrainedAgainWhicheverServerDiesAtAnyPointOfAPush) {
  uint64_t seed = 0, promotions = 0;
  for (const auto point : {ForwardPoint::kApplied, ForwardPoint::kForwarded, ForwardPoint::kTaken,
                           ForwardPoint::kAcknowledged}) {
    for (const bool primary : {true, false}) {
      for (int run = 0; run < (LongTier() ? 20 : kDeaths); ++run) {
        const SwarmJob job = Job(++seed);
        ClusterOptions options = SwarmOptions(job);
        options.forward_death = ForwardDeath{point, primary, milliseconds(2500 + 137 * (run % 8))};
        const ClusterResult result = RunSwarm(job, options);
        ExpectNothingAgain(result, "point " + std::to_string(static_cast<int>(point)) +
                                       (primary ? ", primary" : ", replica") + ", seed " +
                                       std::to_string(seed));
        // Where reports are slow, the job may be over before all slices have replicas.
        if (result.replicated == options.table.slices.size()) {
          EXPECT_EQ(result.deaths, 1u) << "seed " << seed;
        }
        promotions += result.promotions;
      }
    }
  }
  EXPECT_GT(promotions, seed);
}

// When all slices have replicas; with a slow host, that may be at the end of the job, or never.
std::optional<Time> AllHaveReplicas(const ClusterOptions& options) {
  std::optional<Time> at;
  CountingWorkload workload(options.table, options.strategy);
  Hooks hooks;
  hooks.watch_every = milliseconds(50);
  hooks.watch = [&](const Cluster& cluster) {
    if (cluster.status().replicated == options.table.slices.size()) at = cluster.now();
    return !at;
  };
  Cluster(options, workload, std::move(hooks)).Run();
  return at;
}

// It wakes up, or is reached again, when a replica has taken its place.
TEST_P(Replicas, AServerThatWasReplacedAnswersNothingThatItsReplicaLacks) {
  uint64_t tried = 0;
  const uint64_t seeds = LongTier() ? 40 : SeedsOf(8, 4);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    ClusterOptions options = SwarmOptions(Job(seed));
    const auto replicated = AllHaveReplicas(options);
    if (!replicated || *replicated > kSettled) continue;
    ++tried;
    Rng rng(Mix(seed, 11));
    const auto what = seed % 2 == 0 ? What::kPause : What::kCutOff;
    options.plan = {{.what = what,
                     .at = kSettled + FromSeconds(0.8 * rng.Uniform()),
                     .role = Role::kServer,
                     .index = static_cast<uint32_t>(rng.Below(3)),
                     .lasts = milliseconds(1200) + FromSeconds(3 * rng.Uniform())}};
    CountingWorkload workload(options.table, options.strategy);
    Cluster cluster(options, workload);
    ClusterResult result = cluster.Run();
    if (!result.violation) {
      if (const auto wrong = CheckCounts(cluster, options, workload)) result.error = wrong->ToString();
    }
    // Workers that have waited for a server which others do not wait for lose their leases.
    if (what == What::kPause) result.regranted_leases = 0;
    ExpectNothingAgain(result, "seed " + std::to_string(seed));
    EXPECT_GT(result.promotions, 0u) << "seed " << seed;
  }
  EXPECT_GE(tried, seeds - (seeds + 7) / 8);
}

TEST_P(Replicas, MoveWithTheirSlicesWhenServersJoinAndLeave) {
  uint64_t left = 0;
  constexpr uint64_t kJobs = SeedsOf(8, 4);
  for (uint64_t seed = 1; seed <= kJobs; ++seed) {
    const ClusterResult result = RunSwarm(Job(seed), ElasticOptions(Job(seed)));
    ExpectNothingAgain(result, "seed " + std::to_string(seed));
    left += result.servers_left;
  }
  EXPECT_GT(left, kJobs > 2 ? kJobs / 2 : 0) << "others were still handing over when the job ended";
}

TEST_P(Replicas, AreMadeAgainWhoeverDiesAtAnyPointOfACopy) {
  uint64_t seed = 0;
  for (const auto point : {MovePoint::kOrdered, MovePoint::kFrozen, MovePoint::kArrived, MovePoint::kMade,
                           MovePoint::kReleased}) {
    for (const auto who : {MovePart::kFrom, MovePart::kTo, MovePart::kCoordinator}) {
      if (++seed % OneIn(4) != 0) continue;
      const SwarmJob job = Job(seed);
      ClusterOptions options = seed / OneIn(4) % 2 == 0 ? ElasticOptions(job) : SwarmOptions(job);
      options.move_death = MoveDeath{point, who};
      const ClusterResult result = RunSwarm(job, options);
      EXPECT_EQ(result.error, "") << "point " << static_cast<int>(point) << ", who " << static_cast<int>(who)
                                  << ", seed " << seed;
      EXPECT_EQ(result.deaths + result.restarts + result.overtaken, 1u) << "seed " << seed;
    }
  }
}

TEST_P(Replicas, ThoseOfAFormerCoordinatorGoOn) {
  for (uint64_t seed = 1; seed <= SeedsOf(8); ++seed) {
    ClusterOptions options = SwarmOptions(Job(seed));
    const Time at = kSettled + milliseconds(50 * seed);
    options.plan = {{.what = What::kKill,
                     .at = at,
                     .role = Role::kCoordinator,
                     .index = static_cast<uint32_t>(seed % 2),
                     .lasts = milliseconds(50 * seed)}};
    // A server that dies while there is none is missed by the next one.
    if (seed % 2 == 0)
      options.plan.push_back({.what = What::kKill,
                              .at = at + milliseconds(20 * seed),
                              .role = Role::kServer,
                              .index = 1,
                              .replaced = true});
    CountingWorkload workload(options.table, options.strategy);
    Cluster cluster(options, workload);
    ClusterResult result = cluster.Run();
    if (!result.violation) {
      if (const auto wrong = CheckCounts(cluster, options, workload)) result.error = wrong->ToString();
    }
    ExpectNothingAgain(result, "seed " + std::to_string(seed));
  }
}

}  // namespace
}  // namespace leat::sim
