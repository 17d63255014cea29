#include "lab/sim/swarm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/testing.h"
#include "lab/sim/testing.h"

namespace leat::sim {
namespace {

// LEAT_SEEDS=20000 for a nightly run.
uint64_t Seeds() {
  if (const char* wanted = std::getenv("LEAT_SEEDS")) return std::strtoull(wanted, nullptr, 10);
  return LongTier() ? SeedsOf(1000, 4) : SeedsOf(100, 25);
}

// The number of seeds of a test that runs one in `many` of them.
uint64_t OneSeedIn(uint64_t many) {
  return std::max<uint64_t>(1, Seeds() / many);
}

using Kind = protocol::StrategyKind;

struct SwarmCase {
  std::string name;
  protocol::StrategyConfig strategy;
  uint64_t share = 1;  // share of the seeds: one in this many
  bool one_shot = false;
};

void PrintTo(const SwarmCase& c, std::ostream* out) {
  *out << c.name;
}

class Strategies : public ::testing::TestWithParam<SwarmCase> {};

INSTANTIATE_TEST_SUITE_P(
    Swarm, Strategies,
    ::testing::Values(
        SwarmCase{"async", {.kind = Kind::kAsync}},
        SwarmCase{"downpour", {.kind = Kind::kDownpour, .n_push = 3, .n_fetch = 2}},
        SwarmCase{"ssp_async", {.kind = Kind::kSsp, .lanes = 4, .staleness = -1}, 4},
        SwarmCase{"sync", {.kind = Kind::kSync, .lanes = 4}},
        SwarmCase{"ssp_0", {.kind = Kind::kSsp, .lanes = 4, .staleness = 0}, 4},
        SwarmCase{"ssp_3", {.kind = Kind::kSsp, .lanes = 4, .staleness = 3}},
        SwarmCase{"backup", {.kind = Kind::kSync, .lanes = 4, .backup = 1}},
        SwarmCase{"sync_auto", {.kind = Kind::kSync, .lanes = 4, .auto_lanes = true}},
        SwarmCase{"ssp_auto", {.kind = Kind::kSsp, .lanes = 4, .auto_lanes = true, .staleness = 2}, 4},
        SwarmCase{"backup_auto", {.kind = Kind::kSync, .lanes = 3, .auto_lanes = true, .backup = 1}, 4},
        SwarmCase{"allreduce_auto", {.kind = Kind::kAllReduce, .lanes = 4, .auto_lanes = true}, 4},
        SwarmCase{"averaging", {.kind = Kind::kAveraging, .lanes = 4, .period = 3}},
        SwarmCase{"allreduce", {.kind = Kind::kAllReduce, .lanes = 4}},
        SwarmCase{"allreduce_one_shot", {.kind = Kind::kAllReduce, .lanes = 4}, 1, true},
        SwarmCase{"allreduce_by_lanes", {.kind = Kind::kAllReduce, .lanes = 4, .deterministic = true}}),
    [](const auto& test) { return test.param.name; });

TEST_P(Strategies, CountEveryEventOnceInPeace) {
  for (uint64_t seed = 1; seed <= std::clamp<uint64_t>(Seeds() / 10, 1, 20); ++seed) {
    const ClusterResult result = RunSwarm(
        {.seed = seed, .strategy = GetParam().strategy, .one_shot = GetParam().one_shot, .fault_free = true});
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_EQ(result.duplicates, 0u) << "seed " << seed << ": something was trained twice";
    EXPECT_EQ(result.regranted_leases, 0u) << "seed " << seed;
    EXPECT_LT(Seconds(result.took), GetParam().strategy.stepped() ? 20 : 7.5) << "seed " << seed;
  }
}

TEST_P(Strategies, CountEveryEventOnceWhateverGoesWrong) {
  ClusterResult all;
  for (uint64_t seed = 1; seed <= OneSeedIn(GetParam().share); ++seed) {
    const ClusterResult result =
        RunSwarm({.seed = seed, .strategy = GetParam().strategy, .one_shot = GetParam().one_shot});
    EXPECT_EQ(result.error, "") << "seed " << seed;
    all.deaths += result.deaths;
    all.pauses += result.pauses;
    all.restarts += result.restarts;
    all.overtaken += result.overtaken;
    all.replaced += result.replaced;
    all.resumes += result.resumes;
    all.checkpoints += result.checkpoints;
    all.duplicates += result.duplicates;
    all.regranted_leases += result.regranted_leases;
    all.overdue_leases += result.overdue_leases;
    all.cuts += result.cuts;
    all.unreachable += result.unreachable;
    all.groups += result.groups;
    all.state_broadcasts += result.state_broadcasts;
    all.one_shots += result.one_shots;
    all.loads += result.loads;
    all.damaged += result.damaged;
    all.moves += result.moves;
    all.servers_left += result.servers_left;
    all.raises += result.raises;
  }
  // The faults to survive have happened often. A few seeds need not have all of them.
  if (Seeds() < 40) return;
  const uint64_t often = OneSeedIn(GetParam().share * 2);
  for (const uint64_t count : {all.deaths, all.pauses, all.restarts, all.checkpoints, all.loads}) {
    EXPECT_GT(count, often);
  }
  if (GetParam().strategy.on_servers()) {
    EXPECT_GT(all.duplicates, often);
    EXPECT_GT(all.regranted_leases, often);
    EXPECT_GT(all.overdue_leases, often);
    EXPECT_GT(all.cuts, often);
    EXPECT_GT(all.unreachable, often);
    EXPECT_GT(all.moves, often);
    EXPECT_GT(all.servers_left, often / 5);
  } else {
    EXPECT_GT(all.groups, 10 * often);
    EXPECT_GT(all.state_broadcasts, often);
    if (GetParam().one_shot) {
      EXPECT_GT(all.one_shots, 50 * often);
    } else {
      EXPECT_EQ(all.one_shots, 0u);
    }
  }
  EXPECT_GE(all.damaged, often / 200);
  EXPECT_GT(all.resumes, often / 5);
  EXPECT_GT(all.overtaken, often);
  EXPECT_GT(all.replaced, often / 2);
  const bool raises = GetParam().strategy.backup == 0 && !GetParam().strategy.deterministic;
  EXPECT_TRUE(raises ? all.raises > often : all.raises == 0) << all.raises;
}

TEST_P(Strategies, CountEveryEventOnceThoughTheJobIsPaused) {
  ClusterResult all;
  const uint64_t seeds = OneSeedIn(GetParam().share * 2);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const SwarmJob job{.seed = seed, .strategy = GetParam().strategy, .one_shot = GetParam().one_shot};
    const ClusterResult result = RunSwarm(job, WithPauses(SwarmOptions(job)));
    EXPECT_EQ(result.error, "") << "seed " << seed;
    all.job_pauses += result.job_pauses;
    all.restarts += result.restarts;
  }
  // A few seeds need not have all of it.
  if (Seeds() < 40) return;
  EXPECT_GT(all.job_pauses, seeds);
  EXPECT_GT(all.restarts, seeds / 2);
}

TEST_P(Strategies, CountEveryEventOnceWhenServersJoinAndLeave) {
  if (!GetParam().strategy.on_servers()) return;
  for (uint64_t seed = 1; seed <= std::clamp<uint64_t>(Seeds() / 10, 1, 20); ++seed) {
    const SwarmJob job{.seed = seed, .strategy = GetParam().strategy, .fault_free = true};
    const ClusterResult result = RunSwarm(job, ElasticOptions(job));
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_EQ(result.regranted_leases, 0u) << "seed " << seed << ": something was trained twice";
    EXPECT_EQ(result.loads, 0u) << "seed " << seed << ": a slice came from a checkpoint";
    EXPECT_GT(result.moves, 1u) << "seed " << seed;
    EXPECT_EQ(result.servers_left, 1u) << "seed " << seed;
    EXPECT_LT(Seconds(result.took), GetParam().strategy.stepped() ? 20 : 8) << "seed " << seed;
  }
}

TEST_P(Strategies, CountEveryEventOnceWhoeverDiesAtAnyPointOfAMove) {
  if (!GetParam().strategy.on_servers()) return;
  uint64_t seed = 0;
  for (const auto point : {MovePoint::kOrdered, MovePoint::kFrozen, MovePoint::kArrived, MovePoint::kMade,
                           MovePoint::kReleased}) {
    for (const auto who : {MovePart::kFrom, MovePart::kTo, MovePart::kCoordinator}) {
      for (int run = 0; run < (LongTier() ? 20 : Seeds() < 40 ? 1 : 3); ++run) {
        if (++seed % OneIn(4) != 0) continue;
        const SwarmJob job{.seed = seed, .strategy = GetParam().strategy, .fault_free = true};
        ClusterOptions options = ElasticOptions(job);
        options.move_death = MoveDeath{point, who};
        const ClusterResult result = RunSwarm(job, options);
        EXPECT_EQ(result.error, "") << "point " << static_cast<int>(point) << ", who "
                                    << static_cast<int>(who) << ", seed " << seed;
        EXPECT_EQ(result.deaths + result.restarts + result.overtaken, 1u);
        // The next coordinator knows where the slices are.
        if (who == MovePart::kCoordinator) {
          EXPECT_EQ(result.loads, 0u) << "seed " << seed;
        }
      }
    }
  }
}

TEST_P(Strategies, JoinEachCutWithTheSameLateLabelsInPeace) {
  for (uint64_t seed = 1; seed <= std::clamp<uint64_t>(Seeds() / 20, 1, 10); ++seed) {
    const ClusterResult result = RunSwarm({.seed = seed,
                                           .strategy = GetParam().strategy,
                                           .one_shot = GetParam().one_shot,
                                           .fault_free = true,
                                           .late_labels = true});
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_EQ(result.duplicates, 0u) << "seed " << seed << ": something was trained twice";
    EXPECT_GT(result.marks, 30u) << "seed " << seed;
  }
}

TEST_P(Strategies, JoinEachCutWithTheSameLateLabelsWhateverGoesWrong) {
  ClusterResult all;
  const uint64_t seeds = std::max<uint64_t>(SeedsOf(10, 3), OneSeedIn(GetParam().share * 4));
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const ClusterResult result = RunSwarm({.seed = seed,
                                           .strategy = GetParam().strategy,
                                           .one_shot = GetParam().one_shot,
                                           .late_labels = true});
    EXPECT_EQ(result.error, "") << "seed " << seed;
    all.restarts += result.restarts;
    all.resumes += result.resumes;
    all.checkpoints += result.checkpoints;
    all.marks += result.marks;
  }
  // Coordinators have started from journals that had been compacted.
  EXPECT_GT(all.restarts, seeds / 4);
  EXPECT_GE(all.resumes, seeds / 20);
  EXPECT_GT(all.checkpoints, seeds);
  EXPECT_GT(all.marks, 30 * seeds);
}

TEST_P(Strategies, MergeTheMomentsOfEveryEventOnce) {
  for (uint64_t seed = 1; seed <= OneSeedIn(GetParam().share * 5); ++seed) {
    for (const bool fault_free : {true, false}) {
      if (fault_free && seed > 5) continue;
      const ClusterResult result = RunSwarm({.seed = seed,
                                             .strategy = GetParam().strategy,
                                             .one_shot = GetParam().one_shot,
                                             .fault_free = fault_free,
                                             .moments = true});
      EXPECT_EQ(result.error, "") << "seed " << seed;
    }
  }
}

// The mutant without the member check counts wrong.
TEST(Swarm, AWorkerOutOfTheViewChangesNothing) {
  for (uint64_t seed = 1; seed <= std::clamp<uint64_t>(Seeds() / 10, 1, 20); ++seed) {
    const ClusterResult result = RunWithEvictedWorker(seed);
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_EQ(result.lane_changes, 3u) << "seed " << seed << ": four lanes, three, four";
    EXPECT_GT(result.rounds_remade, 4u) << "seed " << seed;
  }
}

// A failing seed is only useful if it fails again.
TEST(Swarm, IsAFunctionOfItsSeed) {
  for (uint64_t seed : {3, 4}) {
    const ClusterResult a = RunSwarm({.seed = seed}), b = RunSwarm({.seed = seed});
    EXPECT_EQ(a.took, b.took);
    EXPECT_EQ(a.messages, b.messages);
    EXPECT_EQ(a.duplicates, b.duplicates);
  }
}

TEST(Swarm, WorksOnOneServerAndOneWorker) {
  for (uint64_t seed = 1; seed <= SeedsOf(20); ++seed) {
    EXPECT_EQ(RunSwarm({.seed = seed, .servers = 1, .workers = 1, .partitions = 1}).error, "")
        << "seed " << seed;
  }
}

TEST(Swarm, WorksOnManyWorkersAndPartitions) {
  for (uint64_t seed = 1; seed <= std::clamp<uint64_t>(Seeds() / 8, 1, 10); ++seed) {
    EXPECT_EQ(RunSwarm({.seed = seed, .servers = 5, .workers = 16, .slices = 40, .partitions = 7}).error, "")
        << "seed " << seed;
  }
}

TEST(Swarm, ReducesAmongAnyNumberOfWorkers) {
  for (const uint32_t workers : {1u, 2u, 7u, 16u}) {
    for (uint64_t seed = 1; seed <= SeedsOf(10, 5); ++seed) {
      const protocol::StrategyConfig strategy{
          .kind = Kind::kAllReduce, .lanes = 6, .deterministic = seed % 2 == 0};
      EXPECT_EQ(RunSwarm({.seed = seed, .workers = workers, .slices = 40, .strategy = strategy}).error, "")
          << workers << " workers, seed " << seed;
    }
  }
}

}  // namespace
}  // namespace leat::sim
