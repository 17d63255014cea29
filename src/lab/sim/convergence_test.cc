// Known properties of the strategies, from papers and analysis, tested on the virtual cluster.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/testing.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/sim/counting.h"
#include "lab/sim/testing.h"

namespace leat::sim {
namespace {

using Kind = protocol::StrategyKind;

// A fault-free cluster on one host's network with the whole stream available from the start.
ClusterOptions Quiet(protocol::StrategyConfig strategy, uint32_t workers, uint64_t batches, uint32_t batch) {
  ClusterOptions options;
  options.workers = workers;
  options.servers = 2;
  options.table = Regression::Table(options.servers);
  options.optimizer.kind = optim::Kind::kSgd;
  options.optimizer.learning_rate = 0.1f;
  options.strategy = strategy;
  options.cuts.batch_size = batch;
  options.cuts.split_batches = 8 * strategy.run();
  options.cuts.run = strategy.run();
  options.stream.partitions.assign(4, {0, batches * batch / 4});
  options.worker_link = options.server_link = {1.25e9, std::chrono::microseconds(20)};
  options.compute = {Distribution::Kind::kLognormal, 0.005, 0.2};
  options.time_limit = std::chrono::hours(10);
  return options;
}

std::vector<float> Train(const ClusterOptions& options, float local_rate = 0) {
  Regression workload(options.strategy, local_rate);
  workload.On(options.table);
  Cluster cluster(options, workload);
  EXPECT_EQ(cluster.Run().error, "");
  std::vector<float> values;
  EXPECT_TRUE(cluster.Saved(&values));
  return values;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Gupta, Zhang and Wang 2016: with N equal workers a gradient is as old as the work of the N - 1 others
// meanwhile.
TEST(Claims, StalenessOfAsyncIsTheNumberOfWorkers) {
  for (const uint32_t workers : {4u, 16u, 64u}) {
    ClusterOptions options = Quiet({.kind = Kind::kAsync}, workers, workers * 200, 32);
    ModelledWorkload workload;
    Cluster cluster(options, workload);
    ASSERT_EQ(cluster.Run().error, "");
    uint64_t sum = 0, count = 0;
    for (const auto& server : cluster.servers()) {
      sum += server.staleness_sum;
      count += server.staleness_count;
    }
    ASSERT_GT(count, 0u);
    const double mean = static_cast<double>(sum) / static_cast<double>(count);
    EXPECT_GE(mean, 0.9 * (workers - 1)) << workers << " workers";
    EXPECT_LE(mean, 1.1 * workers) << workers << " workers";
  }
}

TEST(Claims, AsyncOf64DivergesWhereTheStalenessAwareRateConverges) {
  for (const bool aware : {false, true}) {
    ClusterOptions options = Quiet({.kind = Kind::kAsync, .staleness_aware = aware}, 64, 64 * 100, 32);
    options.optimizer.learning_rate = 0.4f;
    Regression workload(options.strategy);
    workload.On(options.table);
    Cluster cluster(options, workload);
    const ClusterResult result = cluster.Run();
    std::vector<float> values;
    const bool saved = cluster.Saved(&values);
    if (aware) {
      EXPECT_EQ(result.error, "");
      ASSERT_TRUE(saved);
      EXPECT_LT(Regression::Distance(values), 0.05);
    } else {  // a job with only non-finite gradients is ended
      EXPECT_TRUE(!result.error.empty() || !(Regression::Distance(values) < 100))
          << Regression::Distance(values);
    }
  }
}

TEST(Claims, SspOfNoStalenessIsSyncBitForBit) {
  ClusterOptions options = Quiet({.kind = Kind::kSync, .lanes = 4}, 4, 800, 16);
  const auto sync = Train(options);
  EXPECT_LT(Regression::Distance(sync), 0.05);
  options.strategy = {.kind = Kind::kSsp, .lanes = 4, .staleness = 0};
  EXPECT_TRUE(SameBits(Train(options), sync));
  options.strategy.staleness = 2;
  EXPECT_FALSE(SameBits(Train(options), sync));
}

// Ho et al. 2013. The counting model checks at every batch that the parameters lack at most the last n steps,
// counted from the slowest worker.
TEST(Claims, SspKeepsItsBound) {
  constexpr uint64_t kSeeds = SeedsOf(1000, 20);
  uint64_t ahead = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto staleness = static_cast<int32_t>(seed % 5);
    ClusterOptions options =
        Quiet({.kind = Kind::kSsp, .lanes = 4, .staleness = staleness, .sum = true}, 4, 64, 4);
    options.seed = seed;
    options.table = CountingTable(8);
    options.optimizer.learning_rate = 1;
    options.cuts.split_batches = 1 + seed % 7;
    options.compute = {Distribution::Kind::kExponential, 0.005, 0};
    // A worker that leaves blocks nobody.
    if (seed % 3 == 0)
      options.plan = {{.what = PlannedFault::What::kLeave, .at = std::chrono::milliseconds(150)}};
    CountingWorkload workload(options.table, options.strategy);
    Cluster cluster(options, workload);
    const ClusterResult result = cluster.Run();
    ASSERT_EQ(result.error, "") << "seed " << seed;
    ASSERT_EQ(CheckCounts(cluster, options, workload), std::nullopt) << "seed " << seed;
    ahead = std::max(ahead, workload.most_ahead());
  }
  EXPECT_EQ(ahead, 4u) << "workers run ahead as far as they may";
}

// Chen et al. 2016.
TEST(Claims, BackupWorkersKeepTheSlowOneFromSlowingTheRest) {
  const auto time_to_target = [](ClusterOptions options) {
    options.table = CountingTable(8);
    options.optimizer.learning_rate = 1;
    options.strategy.sum = true;
    CountingWorkload workload(options.table, options.strategy);
    Time reached{0};
    const uint64_t target = 4 * options.stream.partitions[0].events * 6 / 10;
    Hooks hooks;
    hooks.watch_every = std::chrono::milliseconds(20);
    hooks.watch = [&](const Cluster& cluster) {
      if (reached == Time(0) && cluster.status().events >= target) reached = cluster.now();
      return true;
    };
    Cluster cluster(options, workload, hooks);
    EXPECT_EQ(cluster.Run().error, "");
    EXPECT_EQ(CheckCounts(cluster, options, workload), std::nullopt);
    return Seconds(reached);
  };
  const auto job = [](uint32_t lanes, uint32_t backup) {
    ClusterOptions options =
        Quiet({.kind = Kind::kSync, .lanes = lanes, .backup = backup}, lanes + backup, 3200, 16);
    options.cuts.split_batches = 64;
    if (lanes + backup == 5) options.slowness = {10};
    return options;
  };
  const double without = time_to_target(job(4, 0));
  EXPECT_LE(time_to_target(job(4, 1)), 1.2 * without);
  EXPECT_GT(time_to_target(job(5, 0)), 3 * without) << "the slow one is slow";
}

TEST(Claims, AveragingEveryBatchIsOneWorkerWithTheJointBatch) {
  ClusterOptions options = Quiet({.kind = Kind::kAveraging, .lanes = 4, .period = 1}, 4, 800, 16);
  options.optimizer.learning_rate = 1;  // the servers' rate: they take the average
  Regression workload(options.strategy, 0.1f);
  workload.On(options.table);
  Cluster cluster(options, workload);
  ASSERT_EQ(cluster.Run().error, "");
  std::vector<float> values;
  ASSERT_TRUE(cluster.Saved(&values));
  const auto& rounds = cluster.disk().rounds();
  ASSERT_GE(rounds.back().first_step + rounds.back().lanes[0].assigned.count(), 200u);
  const auto joint = Regression::JointBatches(rounds, 0.1f);
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(values[i], joint[i], 1e-6 * std::abs(joint[i]) + 1e-7);
  // Not trivial: with longer periods the result differs.
  options.strategy.period = options.cuts.run = 4;
  options.cuts.split_batches = 32;
  EXPECT_FALSE(SameBits(Train(options, 0.1f), values));
}

// The parameters after training with this many workers, some of which die, as do servers.
std::vector<float> OnWorkers(uint32_t workers, protocol::StrategyConfig strategy) {
  ClusterOptions options = Quiet(strategy, workers, 801, 16);
  options.seed = workers;
  options.servers = strategy.on_servers() ? 1 + workers % 3 : 0;
  options.optimizer.kind = optim::Kind::kAdam;
  options.optimizer.learning_rate = 0.01f;
  if (workers > 1) {
    options.plan = {{.at = std::chrono::milliseconds(250), .replaced = true},
                    {.at = std::chrono::milliseconds(300), .role = protocol::Role::kServer, .replaced = true},
                    {.at = std::chrono::milliseconds(500)}};
    options.heartbeat_timeout = std::chrono::milliseconds(500);
  }
  Regression workload(options.strategy);
  workload.On(options.table);
  Cluster cluster(options, workload);
  const ClusterResult result = cluster.Run();
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.deaths, workers == 1 ? 0u : strategy.on_servers() ? 3u : 2u);
  EXPECT_GT(result.took, std::chrono::milliseconds(600));
  std::vector<float> values;
  EXPECT_TRUE(cluster.Saved(&values));
  return values;
}

TEST(Claims, DeterministicStrategiesComeOutTheSameOnAnyNumberOfWorkers) {
  const auto first = OnWorkers(1, {.kind = Kind::kSync, .lanes = 8});
  for (const uint32_t workers : {1u, 2u, 3u, 4u, 8u}) {
    EXPECT_TRUE(SameBits(OnWorkers(workers, {.kind = Kind::kSync, .lanes = 8}), first))
        << "sync, " << workers << " workers";
    EXPECT_TRUE(
        SameBits(OnWorkers(workers, {.kind = Kind::kAllReduce, .lanes = 8, .deterministic = true}), first))
        << "allreduce, " << workers << " workers";
  }
  // Not trivial: in the order of the ring the result differs.
  EXPECT_FALSE(SameBits(OnWorkers(3, {.kind = Kind::kAllReduce, .lanes = 8}), first));
}

// Seconds per step of modelled all-reduce, with variables of these sizes.
double SecondsAStep(uint32_t workers, const std::vector<int64_t>& variables, bool deterministic = false) {
  ClusterOptions options =
      Quiet({.kind = Kind::kAllReduce, .lanes = workers, .deterministic = deterministic}, workers, 0, 16);
  const uint64_t steps = 200;
  options.servers = 0;
  std::vector<optim::VariableSpec> specs;
  for (const int64_t elements : variables) {
    specs.push_back({"v" + std::to_string(specs.size()), Shape{elements}, {}});
  }
  options.table = protocol::MakeSlices(std::move(specs), 1, 1);
  options.stream.partitions.assign(1, {0, steps * workers * 16});
  options.worker_link = {1.25e8, Duration(0)};
  options.compute = {Distribution::Kind::kConstant, 0.06, 0};
  ModelledWorkload workload;
  Cluster cluster(options, workload);
  const ClusterResult result = cluster.Run();
  EXPECT_EQ(result.error, "");
  return Seconds(result.took) / static_cast<double>(steps);
}

// Patarasuk and Yuan 2009: 2 (n - 1) / n of the bytes pass each link, for any number of members.
TEST(Claims, ARingTakesTheSameTimeWhateverItsMembers) {
  constexpr int64_t kElements = 1 << 20;  // 4 MB: 34 ms on a gigabit link
  const double bytes_s = kElements * sizeof(float) / 1.25e8;
  for (const uint32_t workers : {2u, 4u, 8u, 16u}) {
    const double ring = 2.0 * (workers - 1) / workers * bytes_s;
    EXPECT_NEAR(SecondsAStep(workers, {kElements}), 0.06 + ring, 0.1 * ring + 0.003) << workers << " workers";
  }
}

// The gradients of the last variables are sent while those of the first are computed.
TEST(Claims, BucketsHideBehindBackPropagation) {
  const double one = SecondsAStep(4, {1 << 20});
  const double eight = SecondsAStep(4, std::vector<int64_t>(8, 1 << 17));
  const double transfer = one - 0.06;
  EXPECT_LT(eight, 0.06 + 0.5 * transfer);
  EXPECT_GT(eight, 0.06);
  // Lanes added in order are sent when all are complete.
  EXPECT_GT(SecondsAStep(4, std::vector<int64_t>(8, 1 << 17), true), 0.06 + transfer);
}

}  // namespace
}  // namespace leat::sim
