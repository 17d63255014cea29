// Workers that join, leave and die while a job runs, in virtual time: how soon those that come contribute,
// how long the others wait, and that nothing else changes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/sim/testing.h"

namespace leat::sim {
namespace {

using Kind = protocol::StrategyKind;
using What = PlannedFault::What;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint32_t kLanes = 4;
constexpr uint64_t kSteps = 160;
constexpr Duration kStep = milliseconds(50);  // time of the computation

// Linear regression, with the time of each batch.
class Timeline final : public Workload {
 public:
  Timeline(const ClusterOptions& options, float local_rate) : inner_(options.strategy, local_rate) {
    inner_.On(options.table);
  }
  void Watch(const Cluster& cluster) { cluster_ = &cluster; }

  std::unique_ptr<WorkerMemory> Join() override {
    return std::make_unique<Memory>(*this, inner_.Join(), joined_++);
  }

  // The processes are numbered in the order of their start, from 1.
  Time FirstBatchOf(uint32_t process) const {
    const auto at = first_of_.find(process);
    return at == first_of_.end() ? Time::max() : at->second;
  }
  // When the first run of each step was begun: then the step before it had been applied.
  const std::map<uint64_t, Time>& begun() const { return begun_; }

 private:
  class Memory final : public WorkerMemory {
   public:
    Memory(Timeline& all, std::unique_ptr<WorkerMemory> inner, uint32_t process)
        : all_(all), inner_(std::move(inner)), process_(process) {}
    Trained Compute(const protocol::Lease& lease, uint32_t batch, bool first) override {
      const Time now = all_.cluster_->now();
      uint64_t step = lease.first_step;
      for (uint32_t run = 0; run < batch / lease.cut.run; ++run) step += lease.assigned.Has(run) ? 1 : 0;
      all_.first_of_.try_emplace(process_, now);
      all_.begun_.try_emplace(step, now);
      return inner_->Compute(lease, batch, first);
    }
    std::shared_ptr<const std::vector<float>> Pushed() override { return inner_->Pushed(); }
    void TakeValues(SliceId slice, uint64_t version, std::span<const float> values) override {
      inner_->TakeValues(slice, version, values);
    }

   private:
    Timeline& all_;
    const std::unique_ptr<WorkerMemory> inner_;
    const uint32_t process_;
  };

  Regression inner_;
  const Cluster* cluster_ = nullptr;
  uint32_t joined_ = 0;
  std::map<uint32_t, Time> first_of_;
  std::map<uint64_t, Time> begun_;
};

struct Outcome {
  ClusterResult result;
  std::vector<float> values;
  std::vector<Time> first_batch;  // time of each process's first batch
  Duration usual{0};              // median time of a step before the first planned event
  Duration longest{0};            // longest time between the beginnings of two steps, after it
};

class Elastic : public ::testing::TestWithParam<protocol::StrategyConfig> {
 protected:
  static ClusterOptions Options(uint32_t workers) {
    const protocol::StrategyConfig& strategy = GetParam();
    ClusterOptions options;
    options.workers = workers;
    options.servers = strategy.on_servers() ? 2 : 0;
    options.table = Regression::Table(2);
    options.optimizer.kind = optim::Kind::kSgd;
    options.optimizer.learning_rate = strategy.kind == Kind::kAveraging ? 1 : 0.1f;
    options.strategy = strategy;
    options.cuts.batch_size = 16;
    options.cuts.run = strategy.run();
    options.cuts.split_batches = 32 * strategy.run();
    options.stream.partitions.assign(4, {0, kSteps * kLanes * strategy.run() * 16 / 4});
    options.worker_link = options.server_link = {1.25e9, std::chrono::microseconds(100)};
    options.compute = {Distribution::Kind::kLognormal, Seconds(kStep) / strategy.run(), 0.1};
    options.prepare = {Distribution::Kind::kExponential, 0.01, 0};
    options.time_limit = std::chrono::minutes(10);
    options.check = true;
    return options;
  }

  // Kills one of four workers.
  static ClusterOptions WithDeath(uint64_t seed) {
    ClusterOptions options = Options(4);
    options.seed = seed;
    options.plan = {{.at = seconds(2) + milliseconds(37 * seed), .index = static_cast<uint32_t>(seed % 4)}};
    return options;
  }

  static Outcome Run(const ClusterOptions& options) {
    Timeline workload(options, 0.1f);
    Cluster cluster(options, workload);
    workload.Watch(cluster);
    Outcome outcome;
    outcome.result = cluster.Run();
    EXPECT_EQ(outcome.result.error, "");
    EXPECT_TRUE(cluster.Saved(&outcome.values));
    for (uint32_t process = 1; process <= 16; ++process)
      outcome.first_batch.push_back(workload.FirstBatchOf(process));
    const Time change = options.plan.empty() ? Time::max() : options.plan.front().at;
    std::vector<Duration> before;
    Time last = Time::max();
    for (const auto& [step, at] : workload.begun()) {
      if (last != Time::max() && at <= change) before.push_back(at - last);
      if (last != Time::max() && at > change) outcome.longest = std::max(outcome.longest, at - last);
      last = at;
    }
    std::ranges::sort(before);
    if (!before.empty()) outcome.usual = before[before.size() / 2];
    return outcome;
  }

  // Timing must not matter: staleness is a matter of timing.
  static void ExpectSame(const Outcome& a, const Outcome& b) {
    if (GetParam().ahead() > 0) return;
    ASSERT_EQ(a.values.size(), b.values.size());
    EXPECT_EQ(std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)), 0)
        << "the parameters differ";
  }
};

INSTANTIATE_TEST_SUITE_P(
    Stepped, Elastic,
    ::testing::Values(protocol::StrategyConfig{.kind = Kind::kSync, .lanes = kLanes},
                      protocol::StrategyConfig{.kind = Kind::kSsp, .lanes = kLanes, .staleness = 2},
                      protocol::StrategyConfig{.kind = Kind::kAveraging, .lanes = kLanes, .period = 2},
                      protocol::StrategyConfig{
                          .kind = Kind::kAllReduce, .lanes = kLanes, .deterministic = true}),
    [](const auto& test) { return std::string(protocol::Name(test.param.kind)); });

// The lanes of a step are as many as before, so a step takes a shorter time.
TEST_P(Elastic, AWorkerThatJoinsTakesLanesAtOnce) {
  const Outcome alone = Run(Options(2));
  for (uint64_t seed = 1; seed <= SeedsOf(5); ++seed) {
    ClusterOptions options = Options(2);
    options.seed = seed;
    const Time at = seconds(3) + milliseconds(37 * seed);
    options.plan = {{.what = What::kStart, .at = at}, {.what = What::kStart, .at = at + milliseconds(700)}};
    const Outcome joined = Run(options);
    EXPECT_LE(joined.first_batch[2], at + seconds(1)) << "seed " << seed;
    EXPECT_LE(joined.first_batch[3], at + milliseconds(1700)) << "seed " << seed;
    EXPECT_LE(joined.longest, joined.usual + milliseconds(300)) << "seed " << seed;
    EXPECT_LT(joined.result.took, alone.result.took - seconds(2)) << "seed " << seed;
    ExpectSame(joined, alone);
  }
}

TEST_P(Elastic, NobodyWaitsForAWorkerThatLeaves) {
  const Outcome alone = Run(Options(2));
  for (uint64_t seed = 1; seed <= SeedsOf(5); ++seed) {
    ClusterOptions options = Options(4);
    options.seed = seed;
    const Time at = seconds(2) + milliseconds(37 * seed);
    options.plan = {{.what = What::kLeave, .at = at, .index = 1},
                    {.what = What::kLeave, .at = at + milliseconds(900)}};
    const Outcome left = Run(options);
    EXPECT_LE(left.longest, left.usual + milliseconds(300)) << "seed " << seed;
    ExpectSame(left, alone);
  }
}

// The fast worker gets three of the four lanes: then both need the same time.
TEST_P(Elastic, AFasterWorkerGetsMoreLanes) {
  if (!GetParam().on_servers() || GetParam().ahead() > 0) return;  // they share a step evenly
  const Outcome alone = Run(Options(2));
  for (uint64_t seed = 1; seed <= SeedsOf(5); ++seed) {
    ClusterOptions options = Options(2);
    options.seed = seed;
    options.slowness = {1, 3};
    const Outcome mixed = Run(options);
    const Duration even = 6 * kStep * kSteps, fair = 3 * kStep * kSteps;
    EXPECT_LT(mixed.result.took, fair + (even - fair) / 2) << "seed " << seed;
    EXPECT_GT(mixed.result.took, fair) << "seed " << seed;
    ExpectSame(mixed, alone);
  }
}

// The default timeout: nobody reports the death.
TEST_P(Elastic, AWorkersDeathIsOverWithinThreeSeconds) {
  const Outcome alone = Run(Options(2));
  for (uint64_t seed = 1; seed <= SeedsOf(10); ++seed) {
    const Outcome died = Run(WithDeath(seed));
    EXPECT_GT(died.longest, seconds(1)) << "seed " << seed << ": the others need its lanes";
    EXPECT_LE(died.longest, seconds(3)) << "seed " << seed;
    ExpectSame(died, alone);
  }
}

TEST_P(Elastic, AStandbyTakesAPlaceWithinTwoAndAHalfSeconds) {
  const Outcome alone = Run(Options(2));
  for (uint64_t seed = 1; seed <= SeedsOf(10); ++seed) {
    ClusterOptions options = WithDeath(seed);
    options.standby = 1;
    options.plan[0].replaced = true;
    const Outcome died = Run(options);
    EXPECT_LE(died.longest, milliseconds(2500)) << "seed " << seed;
    EXPECT_GT(died.first_batch[4], options.plan[0].at) << "seed " << seed << ": it has stood by";
    EXPECT_LE(died.first_batch[4], options.plan[0].at + milliseconds(2500)) << "seed " << seed;
    EXPECT_EQ(died.first_batch[5], Time::max()) << "seed " << seed << ": its successor stands by";
    ExpectSame(died, alone);
  }
}

// ---- lanes: auto

// The time at which the first round with that many lanes is begun; max() if there is none.
Time BegunWith(size_t lanes, const Cluster& cluster, const Timeline& workload) {
  for (const auto& round : cluster.disk().rounds()) {
    if (round.lanes.size() != lanes) continue;
    const auto at = workload.begun().find(round.first_step);
    if (at != workload.begun().end()) return at->second;
  }
  return Time::max();
}

class AutoLanes : public Elastic {};

INSTANTIATE_TEST_SUITE_P(
    Stepped, AutoLanes,
    ::testing::Values(
        protocol::StrategyConfig{.kind = Kind::kSync, .lanes = kLanes, .auto_lanes = true},
        protocol::StrategyConfig{.kind = Kind::kSsp, .lanes = kLanes, .auto_lanes = true, .staleness = 2},
        protocol::StrategyConfig{.kind = Kind::kAveraging, .lanes = kLanes, .auto_lanes = true, .period = 2},
        protocol::StrategyConfig{.kind = Kind::kAllReduce, .lanes = kLanes, .auto_lanes = true}),
    [](const auto& test) { return std::string(protocol::Name(test.param.kind)); });

// Open rounds last for seconds: with servers they are taken back.
TEST_P(AutoLanes, FollowAWorkerThatJoinsAndOneThatLeaves) {
  const bool takes_back = GetParam().on_servers();
  for (uint64_t seed = 1; seed <= SeedsOf(5); ++seed) {
    ClusterOptions options = Options(4);
    options.seed = seed;
    options.cuts.split_batches = 8 * GetParam().run();
    const Time join = seconds(2) + milliseconds(37 * seed), leave = join + seconds(12);
    options.plan = {{.what = What::kStart, .at = join}, {.what = What::kDrain, .at = leave, .index = 2}};
    options.stream.partitions.assign(4, {0, 3 * kSteps * kLanes * GetParam().run() * 16 / 4});
    Timeline workload(options, 0.1f);
    Cluster cluster(options, workload);
    workload.Watch(cluster);
    const ClusterResult result = cluster.Run();
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_EQ(result.drained, 1u);
    ASSERT_EQ(cluster.disk().lanes().size(), 3u) << "seed " << seed << ": four, five, four";
    EXPECT_EQ(cluster.disk().lanes()[1].lanes, 5u);
    EXPECT_EQ(cluster.disk().lanes()[2].lanes, 4u);
    // Three seconds, one until rounds can be taken back, and the rest of the round by then; or all open
    // rounds.
    const Time five = BegunWith(5, cluster, workload);
    EXPECT_GE(five, join + seconds(3)) << "seed " << seed;
    EXPECT_LE(five, join + (takes_back ? milliseconds(5500) : seconds(12))) << "seed " << seed;
    EXPECT_EQ(result.rounds_remade > 0, takes_back) << "seed " << seed;
  }
}

TEST_P(AutoLanes, StayWhenAWorkerIsReplaced) {
  for (uint64_t seed = 1; seed <= SeedsOf(5); ++seed) {
    ClusterOptions options = Options(4);
    options.seed = seed;
    options.standby = seed % 2;
    options.plan = {{.at = seconds(2) + milliseconds(37 * seed), .index = 1, .replaced = true}};
    Timeline workload(options, 0.1f);
    Cluster cluster(options, workload);
    workload.Watch(cluster);
    const ClusterResult result = cluster.Run();
    EXPECT_EQ(result.error, "") << "seed " << seed;
    EXPECT_EQ(result.lane_changes, 1u) << "seed " << seed << ": as many as at the start";
    EXPECT_EQ(result.rounds_remade, 0u) << "seed " << seed;
  }
}

}  // namespace
}  // namespace leat::sim
