// Cost of servers that join and leave: bits, bytes, and the time of a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/testing.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/sim/testing.h"

namespace leat::sim {
namespace {

using std::chrono::milliseconds;
using Kind = protocol::StrategyKind;
using What = PlannedFault::What;

constexpr auto kServer = protocol::Role::kServer;

// ---- bits

std::vector<float> TrainServers(ClusterOptions options, bool moves) {
  if (moves) {
    options.max_servers = 4;
    options.plan = {{.what = What::kStart, .at = milliseconds(300), .role = kServer},
                    {.what = What::kStart, .at = milliseconds(500), .role = kServer},
                    {.what = What::kLeave, .at = milliseconds(1500), .role = kServer},
                    {.what = What::kLeave, .at = milliseconds(1600), .role = kServer, .index = 1}};
  }
  Regression workload(options.strategy, 0.05f);
  workload.On(options.table);
  Cluster cluster(options, workload);
  const ClusterResult result = cluster.Run();
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.moves > 4, moves);
  EXPECT_EQ(result.servers_left, moves ? 2u : 0u);
  std::vector<float> values;
  EXPECT_TRUE(cluster.Saved(&values));
  return values;
}

TEST(ElasticServers, MovesChangeNoBitOfASteppedJob) {
  for (const protocol::StrategyConfig& strategy :
       {protocol::StrategyConfig{.kind = Kind::kSync, .lanes = 4},
        protocol::StrategyConfig{.kind = Kind::kSsp, .lanes = 4, .staleness = 0},
        protocol::StrategyConfig{.kind = Kind::kAveraging, .lanes = 4, .period = 3}}) {
    ClusterOptions options;
    options.workers = 3;
    options.servers = 2;
    options.table = Regression::Table(options.servers);
    options.optimizer.kind = optim::Kind::kMomentum;
    options.optimizer.learning_rate = 0.05f;
    options.strategy = strategy;
    options.cuts.batch_size = 16;
    options.cuts.split_batches = 8 * strategy.run();
    options.cuts.run = strategy.run();
    options.stream.partitions.assign(4, {0, uint64_t{8'000} * strategy.run()});
    options.worker_link = options.server_link = {1.25e9, std::chrono::microseconds(20)};
    options.compute = {Distribution::Kind::kLognormal, 0.005, 0.2};
    options.checkpoint_interval = std::chrono::seconds(1);
    options.check = true;
    options.time_limit = std::chrono::hours(1);
    const auto still = TrainServers(options, false), moved = TrainServers(options, true);
    EXPECT_LT(Regression::Distance(still), 0.3);
    ASSERT_EQ(still.size(), moved.size());
    EXPECT_EQ(std::memcmp(still.data(), moved.data(), still.size() * sizeof(float)), 0)
        << protocol::Name(strategy.kind);
  }
}

// ---- bytes and time

// Records when each worker begins a batch. Its gradients are zeros.
class Stopwatch final : public Workload {
 public:
  explicit Stopwatch(uint64_t elements) : zeros_(std::make_shared<const std::vector<float>>(elements)) {}

  std::unique_ptr<WorkerMemory> Join() override {
    begun_.emplace_back();
    return std::make_unique<Memory>(*this, begun_.size() - 1);
  }

  void Watch(const Cluster& cluster) { cluster_ = &cluster; }
  // The times between two batches of a worker, of which the second begins in [from, to).
  std::vector<Duration> Steps(Time from, Time to) const {
    std::vector<Duration> steps;
    for (const auto& times : begun_) {
      for (size_t i = 1; i < times.size(); ++i) {
        if (times[i] >= from && times[i] < to) steps.push_back(times[i] - times[i - 1]);
      }
    }
    std::ranges::sort(steps);
    return steps;
  }

 private:
  class Memory final : public WorkerMemory {
   public:
    Memory(Stopwatch& all, size_t index) : all_(all), index_(index) {}
    Trained Compute(const protocol::Lease& lease, uint32_t, bool) override {
      all_.begun_[index_].push_back(all_.cluster_->now());
      Trained trained;
      trained.outcome.events = lease.cut.batch_size;
      return trained;
    }
    std::shared_ptr<const std::vector<float>> Pushed() override { return all_.zeros_; }
    void TakeValues(SliceId, uint64_t, std::span<const float>) override {}

   private:
    Stopwatch& all_;
    size_t index_;
  };

  const std::shared_ptr<const std::vector<float>> zeros_;
  const Cluster* cluster_ = nullptr;
  std::vector<std::vector<Time>> begun_;  // by worker
};

struct Change {
  const char* name;
  uint32_t servers, max_servers;
  What what;
  double share;  // share of the slices that has to move
};

TEST(ElasticServers, AMoveCostsFewBytesAndLittleTime) {
  const std::vector<Change> changes = {{"join", 2, 3, What::kStart, 1.0 / 3},
                                       {"leave", 3, 3, What::kLeave, 1.0 / 3}};
  for (const Change& change : changes) {
    for (const protocol::StrategyConfig& strategy :
         {protocol::StrategyConfig{.kind = Kind::kAsync},
          protocol::StrategyConfig{.kind = Kind::kSync, .lanes = 4},
          protocol::StrategyConfig{.kind = Kind::kSsp, .lanes = 4, .staleness = 2}}) {
      SCOPED_TRACE(std::string(change.name) + ", " + std::string(protocol::Name(strategy.kind)));
      ClusterOptions options;
      options.servers = change.servers;
      options.max_servers = change.max_servers;
      options.workers = 4;
      options.table = protocol::MakeSlices({{"w", Shape{20'000}, {}}}, 1, 3);
      options.optimizer.kind = optim::Kind::kAdam;
      options.strategy = strategy;
      options.cuts.batch_size = 10;
      options.cuts.split_batches = 8;
      options.stream.partitions.assign(4, {0, 3000});
      // A model of 80 KB over 2 MB/s, or of 40 MB over 1 GB/s: a step takes a tenth of a second.
      options.worker_link = options.server_link = {2e6, std::chrono::microseconds(50)};
      options.compute = {Distribution::Kind::kLognormal, 0.02, 0.1};
      options.time_limit = std::chrono::hours(1);
      const Time at = std::chrono::seconds(5);
      options.plan = {{.what = change.what, .at = at, .role = kServer, .index = 0}};

      Stopwatch workload(20'000);
      Time over{0};
      Hooks hooks;
      hooks.watch_every = milliseconds(10);
      hooks.watch = [&](const Cluster& cluster) {
        const auto& moves = cluster.status().moves;
        if (cluster.now() > at && over == Time(0) && moves.slices > 0 && moves.planned == 0)
          over = cluster.now();
        return true;
      };
      Cluster cluster(options, workload, hooks);
      workload.Watch(cluster);
      const ClusterResult result = cluster.Run();
      EXPECT_EQ(result.error, "");
      EXPECT_EQ(result.regranted_leases, 0u);
      EXPECT_GT(result.moves, 1u);

      const uint64_t slots = 2;
      const double least = change.share * 20'000 * (1 + slots) * sizeof(float);
      EXPECT_LE(static_cast<double>(result.moved_bytes), 1.2 * least);
      EXPECT_GE(static_cast<double>(result.moved_bytes), 0.7 * least);

      ASSERT_GT(over, at);
      const auto before = workload.Steps(std::chrono::seconds(1), at);
      const auto during = workload.Steps(at, over + std::chrono::seconds(1));
      ASSERT_GT(before.size(), 50u);
      const Duration median = before[before.size() / 2];
      EXPECT_LE(during.back(), median + milliseconds(300)) << "the median is " << Seconds(median);
      const auto pace = [&](const std::vector<Duration>& steps, Duration time) {
        return static_cast<double>(steps.size()) / Seconds(time);
      };
      const auto moving = workload.Steps(at, over);
      EXPECT_GE(pace(moving, over - at), 0.7 * pace(before, at - std::chrono::seconds(1)))
          << "it took " << Seconds(over - at) << " s";
    }
  }
}

// Nobody reports it, and no other server joins: those that are left restore the slices.
TEST(ElasticServers, ADeathIsOverWithinFiveSeconds) {
  for (const protocol::StrategyConfig& strategy :
       {protocol::StrategyConfig{.kind = Kind::kAsync},
        protocol::StrategyConfig{.kind = Kind::kSync, .lanes = 4},
        protocol::StrategyConfig{.kind = Kind::kSsp, .lanes = 4, .staleness = 2}}) {
    for (uint64_t seed = 1; seed <= SeedsOf(5); ++seed) {
      SCOPED_TRACE(std::string(protocol::Name(strategy.kind)) + ", seed " + std::to_string(seed));
      ClusterOptions options;
      options.seed = seed;
      options.servers = options.max_servers = 3;
      options.workers = 4;
      options.table = protocol::MakeSlices({{"w", Shape{1000}, {}}}, 1, 3);
      options.strategy = strategy;
      options.cuts.batch_size = 10;
      options.cuts.split_batches = 8;
      options.stream.partitions.assign(4, {0, 5000});
      options.worker_link = options.server_link = {1.25e9, std::chrono::microseconds(50)};
      options.compute = {Distribution::Kind::kLognormal, 0.02, 0.1};
      options.checkpoint_interval = std::chrono::seconds(1);
      options.time_limit = std::chrono::hours(1);
      const Time at = std::chrono::seconds(6) + milliseconds(37 * seed);
      options.plan = {{.at = at, .role = kServer, .index = static_cast<uint32_t>(seed % 3)}};

      Stopwatch workload(1000);
      Cluster cluster(options, workload);
      workload.Watch(cluster);
      const ClusterResult result = cluster.Run();
      EXPECT_EQ(result.error, "");
      EXPECT_EQ(result.deaths, 1u);
      EXPECT_GT(result.loads, 0u) << "there was a checkpoint";
      const auto steps = workload.Steps(at, at + std::chrono::seconds(10));
      ASSERT_FALSE(steps.empty());
      EXPECT_GT(steps.back(), options.heartbeat_timeout) << "workers need its slices";
      EXPECT_LE(steps.back(), std::chrono::seconds(5));
    }
  }
}

}  // namespace
}  // namespace leat::sim
