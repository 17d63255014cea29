// Linear regression with real arithmetic, fast enough for thousands of steps per second. Used for tests of
// convergence, with an oracle in double precision that is independent of clusters.
#pragma once

#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "lab/sim/checkpoints/disk.h"
#include "lab/sim/workload.h"
#include "protocol/cut.h"

namespace leat::sim {

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
