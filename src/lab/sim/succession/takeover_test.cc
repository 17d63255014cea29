// Coordinators that are killed and restarted, or paused and overtaken, while nothing else goes wrong: nothing
// is trained again, and no process starts anew.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"
#include "lab/sim/counting.h"
#include "lab/sim/swarm.h"

namespace leat::sim {
namespace {

using Kind = protocol::StrategyKind;
using What = PlannedFault::What;
using protocol::Role;

constexpr uint64_t kSeeds = SeedsOf(40);

struct TakeoverCase {
  std::string name;
  protocol::StrategyConfig strategy;
};

void PrintTo(const TakeoverCase& c, std::ostream* out) {
  *out << c.name;
}

struct TakeoverOutcome {
  ClusterResult result;
  uint64_t joins = 0;
};

TakeoverOutcome RunPlanned(ClusterOptions options) {
  CountingWorkload workload(options.table, options.strategy);
  TakeoverOutcome outcome;
  Hooks hooks;
  hooks.on_join = [&](Time, NodeId, const protocol::JoinRequest&) { ++outcome.joins; };
  Cluster cluster(options, workload, std::move(hooks));
  outcome.result = cluster.Run();
  if (!outcome.result.violation) {
    if (const auto wrong = CheckCounts(cluster, options, workload)) outcome.result.error = wrong->ToString();
  }
  return outcome;
}

Duration Milliseconds(Rng* rng, double least, double most) {
  return FromSeconds(1e-3 * (least + (most - least) * rng->Uniform()));
}

class Takeover : public ::testing::TestWithParam<TakeoverCase> {
 protected:
  // The stream grows for five seconds, and is trained a little later.
  ClusterOptions Options(uint64_t seed) const {
    auto options = SwarmOptions({.seed = seed, .strategy = GetParam().strategy, .fault_free = true});
    // Members of a group wait for those that have not heard of a round before the coordinator was gone.
    options.reply_timeout = std::chrono::seconds(3);
    return options;
  }
  void ExpectNothingAgain(const ClusterOptions& options, const TakeoverOutcome& outcome) const {
    const ClusterResult& result = outcome.result;
    const std::string seed = "seed " + std::to_string(options.seed);
    EXPECT_EQ(result.error, "") << seed;
    EXPECT_EQ(result.duplicates, 0u) << seed << ": something was trained twice";
    EXPECT_EQ(result.regranted_leases, 0u) << seed;
    EXPECT_EQ(result.loads, 0u) << seed << ": a slice was restored";
    EXPECT_EQ(outcome.joins, options.servers + options.workers + options.standby)
        << seed << ": a process has started anew";
    EXPECT_EQ(result.groups, options.strategy.on_servers() ? 0u : 1u) << seed;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Sim, Takeover,
    ::testing::Values(TakeoverCase{"async", {.kind = Kind::kAsync}},
                      TakeoverCase{"downpour", {.kind = Kind::kDownpour, .n_push = 3, .n_fetch = 2}},
                      TakeoverCase{"sync", {.kind = Kind::kSync, .lanes = 4}},
                      TakeoverCase{"ssp_3", {.kind = Kind::kSsp, .lanes = 4, .staleness = 3}},
                      TakeoverCase{"backup", {.kind = Kind::kSync, .lanes = 4, .backup = 1}},
                      TakeoverCase{"averaging", {.kind = Kind::kAveraging, .lanes = 4, .period = 3}},
                      TakeoverCase{"allreduce", {.kind = Kind::kAllReduce, .lanes = 4}},
                      TakeoverCase{"allreduce_by_lanes",
                                   {.kind = Kind::kAllReduce, .lanes = 4, .deterministic = true}}),
    [](const auto& test) { return test.param.name; });

TEST_P(Takeover, NothingIsTrainedAgainAfterARestartAtAnyMoment) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ClusterOptions options = Options(seed);
    Rng rng(Mix(seed, 7));
    const uint64_t restarts = 1 + rng.Below(3);
    // Not before all have joined: the first slices are placed, and the first group is formed.
    Time at = std::chrono::milliseconds(1500);
    for (uint64_t i = 0; i < restarts; ++i) {
      at += Milliseconds(&rng, 0, 1500);
      options.plan.push_back({.what = What::kKill,
                              .at = at,
                              .role = Role::kCoordinator,
                              .index = static_cast<uint32_t>(rng.Below(2)),
                              .lasts = Milliseconds(&rng, 1, 600)});
    }
    const TakeoverOutcome outcome = RunPlanned(options);
    ExpectNothingAgain(options, outcome);
    EXPECT_GE(outcome.result.restarts, 1u) << seed;
  }
}

TEST_P(Takeover, ACoordinatorThatIsOvertakenChangesNothing) {
  uint64_t replaced = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    ClusterOptions options = Options(seed);
    // Members that call the one that is stopped need a while to find the other.
    options.heartbeat_timeout = std::chrono::seconds(3);
    Rng rng(Mix(seed, 8));
    const Time at = std::chrono::milliseconds(1500) + Milliseconds(&rng, 0, 2000);
    if (rng.Chance(0.7)) {
      options.plan.push_back(
          {.what = What::kPause, .at = at, .role = Role::kCoordinator, .lasts = Milliseconds(&rng, 1, 2000)});
    }
    options.plan.push_back({.what = What::kStart,
                            .at = at + Milliseconds(&rng, 0, 700),
                            .role = Role::kCoordinator,
                            .index = 1});
    const TakeoverOutcome outcome = RunPlanned(options);
    ExpectNothingAgain(options, outcome);
    EXPECT_EQ(outcome.result.overtaken, 1u) << seed;
    replaced += outcome.result.replaced;
  }
  EXPECT_GT(replaced, kSeeds / 2);
}

// The next coordinators go on with the pause, until one of them is told to continue.
TEST_P(Takeover, APauseOutlastsCoordinators) {
  for (uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    ClusterOptions options = Options(seed);
    Rng rng(Mix(seed, 9));
    const Time at = std::chrono::milliseconds(1500) + Milliseconds(&rng, 0, 2000);
    const Duration lasts = std::chrono::seconds(9);
    options.plan = {{.what = What::kPauseJob, .at = at, .lasts = lasts}};
    for (const double earliest : {0, 3000}) {
      options.plan.push_back({.what = What::kKill,
                              .at = at + Milliseconds(&rng, earliest, earliest + 1000),
                              .role = Role::kCoordinator,
                              .index = static_cast<uint32_t>(rng.Below(2)),
                              .lasts = Milliseconds(&rng, 1, 600)});
    }
    const TakeoverOutcome outcome = RunPlanned(options);
    ExpectNothingAgain(options, outcome);
    EXPECT_EQ(outcome.result.restarts, 2u) << "seed " << seed;
    EXPECT_GT(outcome.result.took, at + lasts) << "seed " << seed << ": it was not paused";
  }
}

// A member that dies while there is no coordinator is missed by the next one.
TEST_P(Takeover, AMemberThatDoesNotComeBackIsEvicted) {
  for (uint64_t seed = 1; seed <= kSeeds / 2; ++seed) {
    ClusterOptions options = Options(seed);
    const bool server = options.strategy.on_servers() && seed % 2 == 0;
    const Time at = std::chrono::milliseconds(1500 + 100 * seed);
    options.plan.push_back({.what = What::kKill,
                            .at = at,
                            .role = Role::kCoordinator,
                            .index = static_cast<uint32_t>(seed / 2 % 2),
                            .lasts = std::chrono::milliseconds(300)});
    options.plan.push_back({.what = What::kKill,
                            .at = at + std::chrono::milliseconds(100),
                            .role = server ? Role::kServer : Role::kWorker,
                            .index = 1,
                            .replaced = true});
    const TakeoverOutcome outcome = RunPlanned(options);
    EXPECT_EQ(outcome.result.error, "") << "seed " << seed;
    EXPECT_EQ(outcome.result.deaths, 1u);
    EXPECT_EQ(outcome.joins, options.servers + options.workers + options.standby + 1) << "seed " << seed;
  }
}

}  // namespace
}  // namespace leat::sim
