// Jobs for tests: of the counting model, with coordinators or workers that are replaced, and linear
// regression.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "lab/sim/checkpoints/disk.h"
#include "lab/sim/cluster/cluster.h"
#include "lab/sim/swarm.h"
#include "protocol/cut.h"

namespace leat::sim {

// The options of a job in which two servers join and one leaves, whatever else happens.
inline ClusterOptions ElasticOptions(const SwarmJob& job) {
  using What = PlannedFault::What;
  using protocol::Role;
  ClusterOptions options = SwarmOptions(job);
  options.max_servers = job.servers + 3;
  options.plan = {{.what = What::kStart, .at = std::chrono::milliseconds(600), .role = Role::kServer},
                  {.what = What::kStart, .at = std::chrono::milliseconds(700), .role = Role::kServer},
                  {.what = What::kLeave, .at = std::chrono::milliseconds(3000), .role = Role::kServer}};
  return options;
}

// The same options, and commands that pause the job several times.
inline ClusterOptions WithPauses(ClusterOptions options) {
  Rng pauses(Mix(options.seed, 9));
  for (int i = 0; i < 3; ++i) {
    options.plan.push_back({.what = PlannedFault::What::kPauseJob,
                            .at = FromSeconds(0.5 + 8 * pauses.Uniform()),
                            .lasts = FromSeconds(3 * pauses.Uniform())});
  }
  return options;
}

// A job whose coordinators have directories of their own, checked in the same way.
struct StandbyJob {
  uint64_t seed = 1;
  protocol::StrategyConfig strategy;
  uint64_t standbys = 1;
  uint32_t replicas = 1;   // see SwarmJob
  bool paused = false;     // see WithPauses
  bool only_kill = false;  // the active coordinator dies once, for good, and nothing else goes wrong
  uint32_t followers = 0;  // members that follow the parameters
};
inline ClusterResult RunWithStandbys(const StandbyJob& job) {
  ClusterOptions options = SwarmOptions({.seed = job.seed,
                                         .strategy = job.strategy,
                                         .fault_free = job.only_kill,
                                         .standby = false,
                                         .replicas = job.replicas});
  if (job.paused) options = WithPauses(std::move(options));
  Rng rng(Mix(job.seed, 9));
  options.coordinator_standbys = static_cast<uint32_t>(job.standbys);
  options.followers = job.followers;
  // A coordinator that waits for the members to learn which of them are left answers late.
  options.heartbeat_timeout = std::chrono::seconds(3);
  options.leases = {};
  options.max_servers = 0;
  options.time_limit = std::chrono::seconds(200);
  options.progress_within = std::chrono::seconds(40);
  Faults& faults = options.faults;
  faults.damaged = faults.deaths_in_moves = faults.deaths_in_forwards = faults.full_disk = 0;
  if (job.only_kill) {
    options.reply_timeout = std::chrono::seconds(3);
    options.plan = {{.what = PlannedFault::What::kKill,
                     .at = std::chrono::milliseconds(2500) + FromSeconds(2 * rng.Uniform()),
                     .role = protocol::Role::kCoordinator,
                     .lasts = std::chrono::seconds(1000)}};
  } else {
    faults.fault_interval = FromSeconds(rng.Chance(0.5) ? 0.4 : 1.5);
    faults.lost = rng.Chance(0.5) ? 0.01 : 0;
    faults.crash_between_actions = rng.Chance(0.5) ? 0.0005 : 0;
    faults.longest_pause = std::chrono::seconds(rng.Chance(0.2) ? 30 : 4);
    faults.until = std::chrono::seconds(12);
    // The stream grows for longer than most faults last, so that there is something to lease.
    options.stream.takes = std::chrono::seconds(12);
  }
  return RunCounting(options);
}

// A job with lanes: auto, checked in the same way. A worker is stopped, and out of reach of the coordinator.
// It is evicted, and rounds of which it has leases are made anew with fewer lanes, and with as many as before
// when another worker joins. Then it continues with its leases.
inline ClusterResult RunWithEvictedWorker(uint64_t seed) {
  using std::chrono::seconds;
  using What = PlannedFault::What;
  ClusterOptions options =
      SwarmOptions({.seed = seed,
                    .servers = 2,
                    .workers = 4,
                    .strategy = {.kind = protocol::StrategyKind::kSync, .lanes = 4, .auto_lanes = true},
                    .fault_free = true,
                    .standby = false});
  options.cuts.batch_size = 4;
  options.cuts.split_batches = 8;
  options.cuts.epochs = 1;
  options.stream.partitions.assign(2, {0, 1200});
  options.stream.takes = Duration(0);
  // Rounds are leased for 25 s. Two workers that compute the same lane need the same time for it.
  options.compute = {Distribution::Kind::kConstant, 0.2, 0};
  options.checkpoint_interval = Duration(0);
  options.plan = {{.what = What::kPause, .at = seconds(2), .lasts = seconds(13)},
                  {.what = What::kCutOff, .at = seconds(2), .lasts = seconds(60)},
                  {.what = What::kStart, .at = seconds(7)}};
  return RunCounting(options);
}

// Linear regression with real arithmetic, fast enough for thousands of steps per second. Used for tests of
// convergence, with an oracle in double precision that is independent of clusters.
class Regression final : public Workload {
 public:
  static constexpr uint32_t kInputs = 24;

  // `rate`: of the local steps of averaging and downpour.
  explicit Regression(protocol::StrategyConfig strategy, float rate = 0) : strategy_(strategy), rate_(rate) {}
  std::unique_ptr<WorkerMemory> Join() override { return std::make_unique<Memory>(*this); }

  // Two variables, the weights and the bias, in several slices.
  static protocol::SliceTable Table(uint32_t servers) {
    return protocol::MakeSlices({{"w", Shape{kInputs}, {}}, {"b", Shape{1}, {}}}, 1, servers);
  }
  static float Truth(uint32_t i) {
    return 0.5f + 0.1f * static_cast<float>(i % 7) * (i % 2 == 0 ? 1.0f : -1.0f);
  }

  // Adds the gradient of half the squared error of an event to `gradient` (the bias follows the weights).
  template <class Real>
  static void AddGradient(uint32_t partition, uint64_t offset, std::span<const Real> w,
                          std::span<Real> gradient) {
    const CounterRng noise(Mix(partition, offset));
    float x[kInputs];
    Real error = w[kInputs];
    float y = Truth(kInputs) + 0.01f * static_cast<float>(noise.Uniform(kInputs) - 0.5);
    for (uint32_t i = 0; i < kInputs; ++i) {
      x[i] = static_cast<float>(2 * noise.Uniform(i) - 1);
      error += w[i] * x[i];
      y += Truth(i) * x[i];
    }
    error -= y;
    for (uint32_t i = 0; i < kInputs; ++i) gradient[i] += error * x[i];
    gradient[kInputs] += error;
  }

  static double Distance(std::span<const float> w) {
    double sum = 0;
    for (uint32_t i = 0; i <= kInputs; ++i) sum += (w[i] - Truth(i)) * (w[i] - Truth(i));
    return std::sqrt(sum);
  }

  // The parameters after all rounds, where each step is plain SGD on the joint batch of its lanes, in double.
  static std::vector<double> JointBatches(const std::vector<protocol::RoundMade>& rounds, double rate) {
    std::vector<double> w(kInputs + 1, 0);
    std::vector<uint32_t> order;
    for (const auto& round : rounds) {
      const uint32_t steps = round.lanes[0].assigned.count();
      for (uint32_t step = 0; step < steps; ++step) {
        std::vector<double> gradient(kInputs + 1, 0);
        uint64_t events = 0;
        for (const auto& [cut, assigned] : round.lanes) {
          uint32_t run = 0;
          for (uint32_t before = 0; !assigned.Has(run) || before++ < step; ++run) {
          }
          protocol::TrainingOrder(cut, &order);
          const uint32_t begin = run * cut.run * cut.batch_size;
          const uint32_t end = std::min(begin + cut.run * cut.batch_size, cut.events());
          for (uint32_t i = begin; i < end; ++i) {
            AddGradient<double>(cut.partition, cut.begin.offset + order[i], w, gradient);
            ++events;
          }
        }
        for (uint32_t i = 0; i <= kInputs; ++i) w[i] -= rate * gradient[i] / static_cast<double>(events);
      }
    }
    return w;
  }

 private:
  class Memory final : public WorkerMemory {
   public:
    explicit Memory(const Regression& all)
        : all_(all), w_(kInputs + 1), start_(kInputs + 1), pushed_(kInputs + 1) {}

    Trained Compute(const protocol::Lease& lease, uint32_t batch, bool first) override {
      const protocol::Cut& cut = lease.cut;
      const bool averaging = all_.strategy_.kind == protocol::StrategyKind::kAveraging;
      if (first) {
        // The steps of averaging are undone after each run, and a worker may have several lanes.
        if (averaging) w_ = start_;
        std::ranges::fill(pushed_, 0.0f);
      }
      protocol::TrainingOrder(cut, &order_);
      const uint32_t begin = batch * cut.batch_size;
      const uint32_t end = std::min(begin + cut.batch_size, cut.events());
      std::vector<float> gradient(kInputs + 1, 0);
      for (uint32_t i = begin; i < end; ++i) {
        AddGradient<float>(cut.partition, cut.begin.offset + order_[i], w_, gradient);
      }
      Trained trained;
      trained.outcome.events = end - begin;
      for (uint32_t i = 0; i <= kInputs; ++i) {
        const float g = gradient[i] / static_cast<float>(end - begin);
        if (!std::isfinite(g)) trained.outcome.disposition = protocol::Disposition::kRejected;
        if (all_.strategy_.run() > 1 || averaging) w_[i] -= all_.rate_ * g;
        pushed_[i] = averaging ? start_[i] - w_[i] : pushed_[i] + g;
      }
      return trained;
    }
    std::shared_ptr<const std::vector<float>> Pushed() override {
      return std::make_shared<const std::vector<float>>(pushed_);
    }
    void TakeValues(SliceId slice, uint64_t, std::span<const float> values) override {
      const std::ptrdiff_t begin = slice.value < kWeightSlices(all_) ? Begin(slice) : kInputs;
      std::ranges::copy(values, w_.begin() + begin);
      std::ranges::copy(values, start_.begin() + begin);
    }

   private:
    static uint32_t kWeightSlices(const Regression& all) { return all.weight_slices_; }
    std::ptrdiff_t Begin(SliceId slice) const { return all_.begin_[slice.value]; }

    const Regression& all_;
    std::vector<float> w_, start_, pushed_;  // start_: the values that it was sent last
    std::vector<uint32_t> order_;
  };

 public:
  // Sets the slice boundaries; call before the run.
  Regression& On(const protocol::SliceTable& table) {
    begin_.clear();
    weight_slices_ = 0;
    for (const auto& slice : table.slices) {
      begin_.push_back(static_cast<std::ptrdiff_t>(slice.begin));
      if (slice.variable == 0) ++weight_slices_;
    }
    return *this;
  }

 private:
  protocol::StrategyConfig strategy_;
  float rate_;
  std::vector<std::ptrdiff_t> begin_;
  uint32_t weight_slices_ = 0;
};

}  // namespace leat::sim
