#include "lab/sim/swarm.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/testing.h"

namespace leat::sim {
namespace {

using Kind = protocol::StrategyKind;

TEST(FaultJob, IsAFunctionOfItsSeed) {
  std::set<uint64_t> digests;
  constexpr uint64_t kSeeds = SeedsOf(5, 2);
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_EQ(DrawFaultJob(seed).Describe(), DrawFaultJob(seed).Describe());
    std::vector<std::string> first, second;
    const auto note = [](std::vector<std::string>* notes) {
      Hooks hooks;
      hooks.on_fault = [notes](Time at, const std::string& what) {
        notes->push_back(std::to_string(at.count()) + " " + what);
      };
      return hooks;
    };
    const uint64_t a = DigestOf(RunFaultJob(seed, note(&first)));
    EXPECT_EQ(a, DigestOf(RunFaultJob(seed, note(&second)))) << "seed " << seed;
    EXPECT_EQ(first, second) << "seed " << seed;
    // Hooks that watch change nothing.
    EXPECT_EQ(DigestOf(RunFaultJob(seed)), a) << "seed " << seed;
    digests.insert(a);
  }
  EXPECT_EQ(digests.size(), kSeeds);
}

// Each strategy, and jobs of very different sizes.
TEST(FaultJob, DrawsEverything) {
  std::map<Kind, int> strategies;
  int three_servers = 0, replicas = 0, standby = 0, automatic = 0, backup = 0, late_labels = 0, moments = 0,
      plans = 0;
  std::set<int64_t> pauses;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const FaultJob drawn = DrawFaultJob(seed);
    ++strategies[drawn.job.strategy.kind];
    EXPECT_GE(drawn.options.table.slices.size(), 8u);
    EXPECT_EQ(drawn.options.servers > 0, drawn.job.strategy.on_servers());
    three_servers += drawn.options.servers == 3;
    replicas += drawn.options.replicas == 2;
    standby += drawn.options.standby > 0;
    automatic += drawn.job.strategy.auto_lanes;
    backup += drawn.job.strategy.backup > 0;
    late_labels += drawn.job.late_labels;
    moments += drawn.job.moments;
    plans += !drawn.options.plan.empty();
    pauses.insert(drawn.options.faults.longest_pause / std::chrono::seconds(1));
  }
  EXPECT_EQ(strategies.size(), 6u);
  for (const auto& [kind, times] : strategies) EXPECT_GT(times, 30) << protocol::Name(kind);
  for (const int times : {three_servers, replicas, standby, automatic, backup, late_labels, moments, plans}) {
    EXPECT_GT(times, 15);
    EXPECT_LT(times, 485);
  }
  EXPECT_EQ(pauses, (std::set<int64_t>{0, 3, 10, 60}));
}

// `leat simulate --faults` runs many more.
TEST(FaultJob, CountsEveryEventOnceWhateverGoesWrong) {
  std::array<uint64_t, kDeathPoints> deaths{};
  ClusterResult all;
  const uint64_t seeds = SeedsOf(300, 50);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const ClusterResult result = RunFaultJob(seed);
    EXPECT_EQ(result.error, "") << "seed " << seed << ": " << DrawFaultJob(seed).Describe();
    EXPECT_FALSE(result.violation) << "seed " << seed;
    for (size_t point = 0; point < kDeathPoints; ++point) deaths[point] += result.deaths_at[point];
    all.isolations += result.isolations;
    all.moves += result.moves;
    all.promotions += result.promotions;
    all.overtaken += result.overtaken;
    all.servers_left += result.servers_left;
    all.drained += result.drained;
  }
  for (size_t point = 0; point < kDeathPoints && seeds >= 100; ++point)
    EXPECT_GT(deaths[point], 0u) << fields::NameOf(static_cast<DeathPoint>(point));
  for (const uint64_t count :
       {all.isolations, all.moves, all.promotions, all.overtaken, all.servers_left, all.drained})
    EXPECT_GE(count, seeds / 10);
}

}  // namespace
}  // namespace leat::sim
