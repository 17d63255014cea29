// Coordinators with directories of their own: they die, pause and lose each other and the members at random.
// Every event counts once, and no two of them act.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "base/rng.h"
#include "base/testing.h"
#include "lab/sim/counting.h"
#include "lab/sim/testing.h"

namespace leat::sim {
namespace {

using Kind = protocol::StrategyKind;

constexpr uint64_t kStandbySeeds = SeedsOf(40), kStandbyKills = SeedsOf(30);

struct StandbyCase {
  std::string name;
  protocol::StrategyConfig strategy;
};

void PrintTo(const StandbyCase& c, std::ostream* out) {
  *out << c.name;
}

class Standbys : public ::testing::TestWithParam<StandbyCase> {
 protected:
  // In some of the jobs each slice is on two servers.
  static uint32_t Replicas(uint64_t seed) {
    return GetParam().strategy.on_servers() && seed % 3 != 0 ? 2 : 1;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Sim, Standbys,
    ::testing::Values(StandbyCase{"async", {.kind = Kind::kAsync}},
                      StandbyCase{"downpour", {.kind = Kind::kDownpour, .n_push = 3, .n_fetch = 2}},
                      StandbyCase{"sync", {.kind = Kind::kSync, .lanes = 4}},
                      StandbyCase{"ssp_3", {.kind = Kind::kSsp, .lanes = 4, .staleness = 3}},
                      StandbyCase{"averaging", {.kind = Kind::kAveraging, .lanes = 4, .period = 3}},
                      StandbyCase{"allreduce", {.kind = Kind::kAllReduce, .lanes = 4}}),
    [](const auto& test) { return test.param.name; });

TEST_P(Standbys, EveryEventCountsOnceUnderFaults) {
  uint64_t elections = 0, promotions = 0, pauses = 0;
  const uint64_t seeds = LongTier() ? 3000 : kStandbySeeds;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const ClusterResult result = RunWithStandbys({.seed = seed,
                                                  .strategy = GetParam().strategy,
                                                  .standbys = 1 + seed % 2,
                                                  .replicas = Replicas(seed),
                                                  .paused = seed % 5 < 2});
    EXPECT_EQ(result.error, "") << "seed " << seed;
    elections += result.elections;
    promotions += result.promotions;
    pauses += result.job_pauses;
    if (HasFailure()) return;
  }
  EXPECT_GT(elections, seeds / 2) << "most jobs have none";
  EXPECT_GT(pauses, seeds);
  if (GetParam().strategy.on_servers() && LongTier()) {
    EXPECT_GT(promotions, 0u) << "few jobs have some";
  }
}

TEST_P(Standbys, OneTakesOverWithinThreeSecondsAndNothingIsTrainedAgain) {
  for (uint64_t seed = 1; seed <= kStandbyKills; ++seed) {
    const ClusterResult result = RunWithStandbys({.seed = seed,
                                                  .strategy = GetParam().strategy,
                                                  .standbys = 1 + seed % 2,
                                                  .replicas = Replicas(seed),
                                                  .only_kill = true});
    const std::string name = "seed " + std::to_string(seed);
    EXPECT_EQ(result.error, "") << name;
    EXPECT_GE(result.elections, 1u) << name;
    EXPECT_EQ(result.duplicates, 0u) << name;
    EXPECT_EQ(result.regranted_leases, 0u) << name;
    EXPECT_EQ(result.loads, 0u) << name;
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace leat::sim
