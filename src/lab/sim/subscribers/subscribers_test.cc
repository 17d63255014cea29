// Members that follow the parameters beside jobs of every strategy: what they complete is what the servers
// had when they were asked, or later, and the jobs count every event once, whatever goes wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "base/testing.h"
#include "lab/sim/counting.h"
#include "lab/sim/testing.h"

namespace leat::sim {
namespace {

using Kind = protocol::StrategyKind;
using What = PlannedFault::What;
using protocol::Role;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kFollowSeeds = SeedsOf(60, 30), kFollowLongSeeds = SeedsOf(600, 6);

struct FollowCase {
  std::string name;
  protocol::StrategyConfig strategy;
  uint32_t replicas = 1;
};

void PrintTo(const FollowCase& c, std::ostream* out) {
  *out << c.name;
}

class Followers : public ::testing::TestWithParam<FollowCase> {
 protected:
  SwarmJob Job(uint64_t seed) const {
    return {
        .seed = seed, .strategy = GetParam().strategy, .fault_free = true, .replicas = GetParam().replicas};
  }
  static ClusterOptions With(const SwarmJob& job, uint32_t followers) {
    ClusterOptions options = SwarmOptions(job);
    options.followers = followers;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Sim, Followers,
    ::testing::Values(FollowCase{"async", {.kind = Kind::kAsync}},
                      FollowCase{"async_replicas", {.kind = Kind::kAsync}, 2},
                      FollowCase{"downpour", {.kind = Kind::kDownpour, .n_push = 3, .n_fetch = 2}},
                      FollowCase{"sync", {.kind = Kind::kSync, .lanes = 4}},
                      FollowCase{"sync_replicas", {.kind = Kind::kSync, .lanes = 4}, 2},
                      FollowCase{"backup", {.kind = Kind::kSync, .lanes = 4, .backup = 1}},
                      FollowCase{"ssp_3", {.kind = Kind::kSsp, .lanes = 4, .staleness = 3}},
                      FollowCase{"averaging", {.kind = Kind::kAveraging, .lanes = 4, .period = 3}},
                      FollowCase{"allreduce", {.kind = Kind::kAllReduce, .lanes = 4}}),
    [](const auto& test) { return test.param.name; });

TEST_P(Followers, HaveNewValuesInTimeInPeace) {
  for (uint64_t seed = 1; seed <= SeedsOf(8); ++seed) {
    SwarmJob job = Job(seed);
    job.standby = false;
    ClusterOptions options = With(job, 2);
    const ClusterResult result = RunSwarm(job, options);
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_GT(result.follow_rounds, 40u) << "seed " << seed;
    EXPECT_GT(result.follow_changes, 20u) << "seed " << seed;
    // All processes are alive, but a group forms and slices get replicas.
    EXPECT_LT(Seconds(result.follow_gap), 1.2) << "seed " << seed;
  }
}

TEST_P(Followers, CompleteWhatTheServersHaveWhateverGoesWrong) {
  ClusterResult all;
  const uint64_t seeds = LongTier() ? kFollowLongSeeds : kFollowSeeds;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SwarmJob job = Job(seed);
    job.fault_free = false;
    const bool elastic = GetParam().strategy.on_servers() && seed % 3 == 0;
    ClusterOptions options = elastic ? ElasticOptions(job) : SwarmOptions(job);
    options.followers = 1 + seed % 2;
    const ClusterResult result = RunSwarm(job, options);
    EXPECT_EQ(result.error, "") << "seed " << seed;
    all.deaths += result.deaths;
    all.follow_rounds += result.follow_rounds;
    all.follow_changes += result.follow_changes;
  }
  EXPECT_GT(all.deaths, seeds);
  EXPECT_GT(all.follow_rounds, 10 * seeds);
  EXPECT_GT(all.follow_changes, 5 * seeds);
}

// The slices of a server that dies come back from a checkpoint, or from their replicas, or a group is formed
// without a member.
TEST_P(Followers, CatchUpSoonAfterALoss) {
  for (uint64_t seed = 1; seed <= SeedsOf(8); ++seed) {
    SwarmJob job = Job(seed);
    job.standby = false;
    ClusterOptions options = With(job, 1);
    const Role role = GetParam().strategy.on_servers() ? Role::kServer : Role::kWorker;
    constexpr Time kLost = milliseconds(2500);
    options.plan = {{.what = What::kKill, .at = kLost, .role = role, .replaced = true}};
    Time caught_up = Time::max();
    Hooks hooks;
    hooks.on_followed = [&](Time now, Time asked) {
      if (asked > kLost) caught_up = std::min(caught_up, now);
    };
    const ClusterResult result = RunSwarm(job, options, std::move(hooks));
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_EQ(result.deaths, 1u) << "seed " << seed;
    // Detection and the wait for a replacement, then twice the interval, and some calls.
    const Duration detection = options.heartbeat_timeout + options.server_wait + options.heartbeat_interval;
    EXPECT_LT(caught_up, kLost + detection + 2 * options.refresh + milliseconds(1000)) << "seed " << seed;
  }
}

// Coordinators with directories of their own, which the servers elect.
TEST(FollowersAlone, GoOnWithTheNextCoordinator) {
  ClusterResult all;
  for (uint64_t seed = 1; seed <= SeedsOf(20); ++seed) {
    StandbyJob job{
        .seed = seed, .strategy = {.kind = Kind::kAsync}, .standbys = 1 + seed % 2, .followers = 1};
    if (seed % 2 == 0) job.strategy = {.kind = Kind::kSync, .lanes = 4};
    job.only_kill = seed % 4 < 2;
    const ClusterResult result = RunWithStandbys(job);
    EXPECT_EQ(result.error, "") << "seed " << seed;
    all.elections += result.elections;
    all.follow_rounds += result.follow_rounds;
  }
  EXPECT_GT(all.elections, SeedsOf(20) / 2);
  EXPECT_GT(all.follow_rounds, 20 * SeedsOf(20));
}

// The job's events are trained as if nobody followed.
TEST(FollowersAlone, ChangeNothingInTheJob) {
  SwarmJob job{.seed = 3, .strategy = {.kind = Kind::kSync, .lanes = 4}, .fault_free = true};
  ClusterOptions with = SwarmOptions(job);
  with.followers = 3;
  const ClusterResult result = RunSwarm(job, with);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.regranted_leases, 0u);
  EXPECT_EQ(result.duplicates, 0u);
}

// Where slices take long to send, followers come less often.
TEST(FollowersAlone, UseAFifthOfALink) {
  SwarmJob job{.seed = 5, .strategy = {.kind = Kind::kAsync}, .fault_free = true};
  ClusterOptions options = SwarmOptions(job);
  options.followers = 2;
  options.worker_link.latency = milliseconds(25);
  options.jitter = 0;
  const ClusterResult slow = RunSwarm(job, options);
  EXPECT_EQ(slow.error, "");
  // An exchange takes 50 ms or more: two followers come every half second.
  EXPECT_LT(static_cast<double>(slow.follow_rounds), 2 * Seconds(slow.took) / 0.5 + 4);
  EXPECT_GT(slow.follow_rounds, 6u);
}

}  // namespace
}  // namespace leat::sim
