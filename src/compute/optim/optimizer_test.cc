#include "compute/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/rng.h"

namespace leat::optim {
namespace {

constexpr Kind kKinds[] = {Kind::kSgd,     Kind::kMomentum, Kind::kNesterov, Kind::kAdagrad,
                           Kind::kRmsprop, Kind::kAdam,     Kind::kAdamW,    Kind::kLamb};

// Every kind with default settings, and with every setting that changes its computation.
std::vector<OptimizerConfig> Everyone() {
  std::vector<OptimizerConfig> all;
  for (const Kind kind : kKinds) {
    OptimizerConfig config = Defaults(kind);
    all.push_back(config);
    config.weight_decay = 0.03f;
    config.schedule = {.type = Schedule::Type::kCosine, .warmup = 5, .steps = 60, .final = 0.1};
    all.push_back(config);
    if (kind != Kind::kRmsprop) continue;
    config.centered = true;
    all.push_back(config);
    config.momentum = 0.8f;
    all.push_back(config);
    config.centered = false;
    all.push_back(config);
  }
  return all;
}

// A variable with its slots, and a view of any part of it.
struct State {
  State(const OptimizerConfig& config, std::vector<float> w) : values(std::move(w)) {
    for (size_t s = 0; s < SlotNames(config).size(); ++s) {
      slots.emplace_back(values.size(), InitialSlot(config, s));
    }
  }
  void Update(const OptimizerConfig& config, std::span<const float> gradient, size_t begin, size_t end,
              uint64_t step, float scale = 1) {
    std::vector<std::span<float>> parts;
    for (auto& slot : slots) parts.push_back(std::span(slot).subspan(begin, end - begin));
    Apply(config, std::span(values).subspan(begin, end - begin), gradient.subspan(begin, end - begin), parts,
          step, scale);
  }
  void Update(const OptimizerConfig& config, std::span<const float> gradient, uint64_t step,
              float scale = 1) {
    Update(config, gradient, 0, values.size(), step, scale);
  }

  std::vector<float> values;
  std::vector<std::vector<float>> slots;
};

std::vector<float> Normals(size_t n, uint64_t seed) {
  const CounterRng rng(seed);
  std::vector<float> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = static_cast<float>(rng.Normal(i));
  return out;
}

// The same rules in double, from the formulas of the header.
class Plain {
 public:
  Plain(const OptimizerConfig& config, const std::vector<float>& values)
      : c(config), w(values.begin(), values.end()) {
    for (size_t s = 0; s < SlotNames(config).size(); ++s)
      slots.emplace_back(w.size(), InitialSlot(config, s));
  }

  void Update(const std::vector<float>& gradient, uint64_t step, double scale) {
    const double lr = c.learning_rate * ShareAt(c.schedule, step) * scale;
    const double wd = c.weight_decay;
    std::vector<double> u(w.size());
    const bool decoupled = c.kind == Kind::kAdamW || c.kind == Kind::kLamb;
    for (size_t i = 0; i < w.size(); ++i)
      u[i] = Direction(i, gradient[i] + (decoupled ? 0 : wd * w[i]), step);
    double ratio = 1;
    if (c.kind == Kind::kLamb) {
      double weights = 0, directions = 0;
      for (size_t i = 0; i < w.size(); ++i) {
        u[i] += wd * w[i];
        weights += w[i] * w[i];
        directions += u[i] * u[i];
      }
      if (weights > 0 && directions > 0) ratio = std::sqrt(weights / directions);
    }
    for (size_t i = 0; i < w.size(); ++i) {
      if (c.kind == Kind::kAdamW) w[i] -= lr * wd * w[i];
      w[i] -= lr * ratio * u[i];
    }
  }

  OptimizerConfig c;
  std::vector<double> w;
  std::vector<std::vector<double>> slots;

 private:
  static double Decayed(double decay, double& average, double value) {
    return average = decay * average + (1 - decay) * value;
  }
  double Direction(size_t i, double d, uint64_t step) {
    switch (c.kind) {
      case Kind::kSgd:
        return d;
      case Kind::kMomentum:
        return slots[0][i] = c.momentum * slots[0][i] + d;
      case Kind::kNesterov:
        slots[0][i] = c.momentum * slots[0][i] + d;
        return d + c.momentum * slots[0][i];
      case Kind::kAdagrad:
        slots[0][i] += d * d;
        return d / (std::sqrt(slots[0][i]) + c.epsilon);
      case Kind::kRmsprop: {
        double variance = Decayed(c.alpha, slots[0][i], d * d);
        if (c.centered) {
          const double mean = Decayed(c.alpha, slots[1][i], d);
          variance -= mean * mean;
        }
        const double u = d / (std::sqrt(std::max(variance, 0.0)) + c.epsilon);
        return c.momentum > 0 ? slots.back()[i] = c.momentum * slots.back()[i] + u : u;
      }
      case Kind::kAdam:
      case Kind::kAdamW:
      case Kind::kLamb: {
        const double t = static_cast<double>(step);
        const double m = Decayed(c.beta1, slots[0][i], d) / (1 - std::pow(double{c.beta1}, t));
        const double v = Decayed(c.beta2, slots[1][i], d * d) / (1 - std::pow(double{c.beta2}, t));
        return m / (std::sqrt(v) + c.epsilon);
      }
    }
    return 0;
  }
};

TEST(OptimizerTest, FollowsTheFormulas) {
  constexpr size_t kSize = 37;
  for (OptimizerConfig config : Everyone()) {
    // Small variances are differences of rounded f32 values.
    if (config.centered) config.epsilon = 0.01f;
    const auto start = Normals(kSize, 1);
    State state(config, start);
    Plain plain(config, start);
    for (uint64_t step = 1; step <= 50; ++step) {
      const auto gradient = Normals(kSize, 100 + step);
      const float scale = step % 3 == 0 ? 0.5f : 1.0f;
      state.Update(config, gradient, step, scale);
      plain.Update(gradient, step, scale);
    }
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(state.values[i], plain.w[i], 1e-5 * (1 + std::abs(plain.w[i]))) << Name(config.kind);
      for (size_t s = 0; s < state.slots.size(); ++s) {
        EXPECT_NEAR(state.slots[s][i], plain.slots[s][i], 1e-5 * (1 + std::abs(plain.slots[s][i])));
      }
    }
  }
}

// Worked by hand: w = 1, learning rate 0.1, gradients 0.5, -0.25, 1.
TEST(OptimizerTest, SmallNumbersByHand) {
  const std::vector<float> gradients = {0.5f, -0.25f, 1.0f};
  struct Row {
    Kind kind;
    float after[3];
  };
  const Row rows[] = {
      {Kind::kSgd, {0.95f, 0.975f, 0.875f}},
      // v: 0.5, 0.2, 1.18
      {Kind::kMomentum, {0.95f, 0.93f, 0.812f}},
      // a from 0: 0.25, 0.3125, 1.3125; steps 0.1, -0.0447214, 0.0872872
      {Kind::kAdagrad, {0.9f, 0.9447214f, 0.8574342f}},
      // m̂: 0.5, 0.1052632, 0.4354244; v̂: 0.25, 0.1562031, 0.4377502
      {Kind::kAdam, {0.9f, 0.8733663f, 0.8075551f}},
  };
  for (const Row& row : rows) {
    OptimizerConfig config = Defaults(row.kind);
    config.learning_rate = 0.1f;
    config.initial_accumulator = 0;
    State state(config, {1.0f});
    for (uint64_t step = 1; step <= 3; ++step) {
      state.Update(config, std::span(gradients).subspan(step - 1, 1), step);
      EXPECT_NEAR(state.values[0], row.after[step - 1], 2e-6) << Name(row.kind) << " step " << step;
    }
  }
}

// With a constant gradient momentum and adam have closed forms.
TEST(OptimizerTest, ClosedFormsOfAConstantGradient) {
  constexpr int kSteps = 200;
  const std::vector<float> g = {0.3f};

  OptimizerConfig momentum = Defaults(Kind::kMomentum);
  State m(momentum, {2.0f});
  for (uint64_t t = 1; t <= kSteps; ++t) m.Update(momentum, g, t);
  const double u = momentum.momentum;
  const double sum = (kSteps - u * (1 - std::pow(u, kSteps)) / (1 - u)) / (1 - u);
  EXPECT_NEAR(m.values[0], 2.0 - momentum.learning_rate * 0.3 * sum, 1e-4);

  // Both moments are unbiased, so each step is exactly the learning rate.
  OptimizerConfig adam = Defaults(Kind::kAdam);
  State a(adam, {2.0f});
  for (uint64_t t = 1; t <= kSteps; ++t) a.Update(adam, g, t);
  EXPECT_NEAR(a.values[0], 2.0 - kSteps * adam.learning_rate, 1e-4);
}

TEST(OptimizerTest, AnyPartByItselfComesOutBitForBitTheSame) {
  constexpr size_t kSize = 517;  // not a multiple of any vector width
  Rng rng(7);
  for (const OptimizerConfig& config : Everyone()) {
    if (NeedsWholeVariables(config)) continue;
    State whole(config, Normals(kSize, 3));
    State parts(config, Normals(kSize, 3));
    for (uint64_t step = 1; step <= 40; ++step) {
      const auto gradient = Normals(kSize, 200 + step);
      whole.Update(config, gradient, step, 0.7f);
      for (size_t begin = 0; begin < kSize;) {
        const size_t most = rng.Chance(0.5) ? 5 : 100;
        const size_t end = std::min(kSize, begin + 1 + rng.Below(most));
        parts.Update(config, gradient, begin, end, step, 0.7f);
        begin = end;
      }
    }
    for (size_t i = 0; i < kSize; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(whole.values[i]), std::bit_cast<uint32_t>(parts.values[i]))
          << Name(config.kind) << " element " << i;
    }
    EXPECT_EQ(whole.slots, parts.slots);
  }
}

// Norms in lamb are bitwise equal for any vector width and any alignment.
TEST(OptimizerTest, LambIsTheSameWhereverTheVariableLies) {
  const OptimizerConfig config = Defaults(Kind::kLamb);
  for (const size_t size : {1u, 15u, 16u, 17u, 100u, 517u}) {
    const auto start = Normals(size, 3);
    State aligned(config, start);
    for (const size_t offset : {1u, 3u, 7u}) {
      std::vector<float> w(size + offset), m(size + offset), v(size + offset);
      std::ranges::copy(start, w.begin() + static_cast<std::ptrdiff_t>(offset));
      const std::vector<std::span<float>> slots = {std::span(m).subspan(offset),
                                                   std::span(v).subspan(offset)};
      State again(config, start);
      for (uint64_t step = 1; step <= 10; ++step) {
        const auto gradient = Normals(size, 200 + step);
        Apply(config, std::span(w).subspan(offset), gradient, slots, step, 1);
        again.Update(config, gradient, step);
      }
      EXPECT_TRUE(std::ranges::equal(again.values, std::span(w).subspan(offset))) << size;
    }
  }
}

// Lamb equals this plain loop bit for bit: sums have a fixed order, and every operation is rounded
// separately.
TEST(OptimizerTest, LambIsThePlainLoopBitForBit) {
  OptimizerConfig config = Defaults(Kind::kLamb);
  config.beta1 = 0.5f;  // makes the bias correction of step 1 exact
  config.beta2 = 0.75f;
  for (const size_t size : {1u, 16u, 37u, 500u}) {
    const auto start = Normals(size, 3), g = Normals(size, 4);
    State state(config, start);
    state.Update(config, g, 1);
    double weights[kNormLanes] = {}, directions[kNormLanes] = {};
    std::vector<float> u(size);
    for (size_t i = 0; i < size; ++i) {
      const float m = 0.5f * g[i], square = g[i] * g[i], v = 0.25f * square;
      const float root = std::sqrt(v) * 2.0f, decay = config.weight_decay * start[i];
      const float corrected = m * 2.0f, below = root + config.epsilon, ratio = corrected / below;
      u[i] = ratio + decay;
      weights[i % kNormLanes] += double{start[i]} * double{start[i]};
      directions[i % kNormLanes] += double{u[i]} * double{u[i]};
    }
    const double trust = std::sqrt(SumOfLanes(weights)) / std::sqrt(SumOfLanes(directions));
    const auto rate = static_cast<float>(config.learning_rate * trust);
    for (size_t i = 0; i < size; ++i) {
      const float step = rate * u[i];
      ASSERT_EQ(state.values[i], start[i] - step) << size << " element " << i;
    }
  }
}

// The norm of a lamb step is the learning rate times the norm of the variable, for any gradient.
TEST(OptimizerTest, LambStepsByAShareOfTheVariablesNorm) {
  OptimizerConfig config = Defaults(Kind::kLamb);
  config.learning_rate = 0.125f;
  for (const float size : {1e-3f, 1.0f, 1e4f}) {
    const auto start = Normals(100, 5);
    auto gradient = Normals(100, 6);
    for (float& g : gradient) g *= size;
    State state(config, start);
    state.Update(config, gradient, 1);
    std::vector<float> step(100);
    for (size_t i = 0; i < step.size(); ++i) step[i] = start[i] - state.values[i];
    EXPECT_NEAR(std::sqrt(SquaredNorm(step.data(), 100)), 0.125 * std::sqrt(SquaredNorm(start.data(), 100)),
                1e-5);
  }
}

// Decoupled weight decay does not depend on the gradient; L2 regularisation does.
TEST(OptimizerTest, DecoupledDecayShrinksByTheSameShare) {
  OptimizerConfig config = Defaults(Kind::kAdamW);
  config.learning_rate = 0.5f;
  config.weight_decay = 0.25f;
  State state(config, {8.0f, -4.0f});
  state.Update(config, std::vector<float>{0, 0}, 1);
  EXPECT_THAT(state.values, ::testing::ElementsAre(7.0f, -3.5f));
}

// A constant gradient has variance 0, which rounding may make negative.
TEST(OptimizerTest, CenteredRmspropStaysFinite) {
  OptimizerConfig config = Defaults(Kind::kRmsprop);
  config.centered = true;
  for (const float g : {0.1f, 0.3f, 1e-3f, 7e5f}) {
    State state(config, {1.0f});
    for (uint64_t step = 1; step <= 3000; ++step) {
      state.Update(config, std::vector<float>{g}, step);
      ASSERT_TRUE(std::isfinite(state.values[0])) << g << " " << step;
    }
  }
}

TEST(OptimizerTest, TheScheduleIsAFactorOnTheRate) {
  for (OptimizerConfig config : Everyone()) {
    config.schedule = {};
    OptimizerConfig scheduled = config;
    scheduled.schedule = {.type = Schedule::Type::kStep, .warmup = 4, .every = 2, .factor = 0.5};
    State plain(config, Normals(9, 3)), state(scheduled, Normals(9, 3));
    for (uint64_t step = 1; step <= 12; ++step) {
      const auto gradient = Normals(9, 200 + step);
      // Powers of two, so that the order of multiplication does not matter.
      const float share = step <= 4 ? static_cast<float>(step) / 4
                                    : std::exp2f(-std::floor((static_cast<float>(step) - 5) / 2));
      plain.Update(config, gradient, step, share);
      state.Update(scheduled, gradient, step);
    }
    EXPECT_EQ(plain.values, state.values) << Name(config.kind);
  }
}

TEST(OptimizerTest, AStatisticMovesByWhatIsPushed) {
  OptimizerConfig config = Defaults(Kind::kAdamW);
  config.schedule.warmup = 1000;
  const VariableSpec statistic{"norm/mean", Shape{3}, {}, VariableRole::kStatistic};
  const OptimizerConfig rule = RuleFor(config, statistic);
  EXPECT_THAT(SlotNames(rule), ::testing::IsEmpty());
  State state(rule, {1.0f, 2.0f, -3.0f});
  state.Update(rule, std::vector<float>{0.25f, -1.0f, 0.0f}, 1);
  EXPECT_THAT(state.values, ::testing::ElementsAre(0.75f, 3.0f, -3.0f));
  EXPECT_EQ(RuleFor(config, {"dense1/weight", Shape{3, 3}, {}}), config);
}

TEST(OptimizerTest, VectorsNeedNotDecay) {
  OptimizerConfig config = Defaults(Kind::kAdamW);
  EXPECT_EQ(RuleFor(config, {"bias", Shape{3}, {}}).weight_decay, config.weight_decay);
  config.decay_vectors = false;
  EXPECT_EQ(RuleFor(config, {"bias", Shape{3}, {}}).weight_decay, 0);
  EXPECT_EQ(RuleFor(config, {"scale", Shape{}, {}}).weight_decay, 0);
  EXPECT_EQ(RuleFor(config, {"weight", Shape{3, 2}, {}}).weight_decay, config.weight_decay);
}

// Without fused multiply-add, results are bitwise equal for every vector width, with and without sanitizers,
// so the servers of one job may run on different machines.
TEST(OptimizerTest, RoundsEachOperationByItself) {
  OptimizerConfig config = Defaults(Kind::kSgd);
  config.learning_rate = 0.1f;
  const auto w = Normals(64, 5);
  const auto g = Normals(64, 6);
  State state(config, w);
  state.Update(config, g, 1);
  for (size_t i = 0; i < w.size(); ++i) {
    const volatile float product = 0.1f * g[i];
    EXPECT_EQ(state.values[i], w[i] - product);
  }
}

TEST(OptimizerTest, AZeroGradientLeavesAFreshVariableAlone) {
  for (const Kind kind : kKinds) {
    OptimizerConfig config = Defaults(kind);
    config.weight_decay = 0;
    State state(config, {1.5f, -2.0f});
    state.Update(config, std::vector<float>{0, 0}, 1);
    EXPECT_THAT(state.values, ::testing::ElementsAre(1.5f, -2.0f)) << Name(kind);
  }
}

TEST(OptimizerTest, EmptyPartsAreFine) {
  for (const Kind kind : kKinds) {
    const OptimizerConfig config = Defaults(kind);
    State state(config, {});
    state.Update(config, {}, 1);
  }
}

TEST(OptimizerTest, NamesAndInitialSlots) {
  using ::testing::ElementsAre;
  EXPECT_THAT(SlotNames(Defaults(Kind::kSgd)), ::testing::IsEmpty());
  EXPECT_THAT(SlotNames(Defaults(Kind::kMomentum)), ElementsAre("velocity"));
  EXPECT_THAT(SlotNames(Defaults(Kind::kNesterov)), ElementsAre("velocity"));
  EXPECT_THAT(SlotNames(Defaults(Kind::kAdagrad)), ElementsAre("accumulator"));
  for (const Kind kind : {Kind::kAdam, Kind::kAdamW, Kind::kLamb})
    EXPECT_THAT(SlotNames(Defaults(kind)), ElementsAre("moment1", "moment2"));
  OptimizerConfig rmsprop = Defaults(Kind::kRmsprop);
  EXPECT_THAT(SlotNames(rmsprop), ElementsAre("square"));
  rmsprop.momentum = 0.5f;
  EXPECT_THAT(SlotNames(rmsprop), ElementsAre("square", "velocity"));
  rmsprop.centered = true;
  EXPECT_THAT(SlotNames(rmsprop), ElementsAre("square", "mean", "velocity"));
  EXPECT_EQ(InitialSlot(Defaults(Kind::kAdagrad), 0), 0.1f);
  EXPECT_EQ(InitialSlot(Defaults(Kind::kAdam), 1), 0.0f);
  EXPECT_EQ(InitialSlot(rmsprop, 2), 0.0f);
  EXPECT_EQ(Name(Kind::kAdam), "adam");
  for (const Kind kind : kKinds) EXPECT_EQ(NeedsWholeVariables(Defaults(kind)), kind == Kind::kLamb);
}

OptimizerConfig Read(const std::string& yaml) {
  return FromConfig(Config::Parse(yaml, "job.yaml"));
}

TEST(OptimizerConfigTest, ReadsEachType) {
  OptimizerConfig sgd = Defaults(Kind::kSgd);
  sgd.learning_rate = 0.5f;
  EXPECT_EQ(Read("type: sgd\nlearning_rate: 0.5\n"), sgd);
  OptimizerConfig momentum = Defaults(Kind::kMomentum);
  momentum.momentum = 0.95f;
  EXPECT_EQ(Read("type: momentum\nmomentum: 0.95\n"), momentum);
  OptimizerConfig adagrad = Defaults(Kind::kAdagrad);
  adagrad.initial_accumulator = 0.0f;
  EXPECT_EQ(Read("type: adagrad\ninitial_accumulator: 0\n"), adagrad);
  for (const Kind kind : kKinds)
    EXPECT_EQ(Read("type: " + std::string(Name(kind)) + "\n"), Defaults(kind)) << Name(kind);
  OptimizerConfig adam = Defaults(Kind::kAdam);
  adam.beta1 = 0.8f;
  adam.beta2 = 0.99f;
  adam.epsilon = 1e-6f;
  EXPECT_EQ(Read("type: adam\nbeta1: 0.8\nbeta2: 0.99\nepsilon: 1e-6\n"), adam);
  OptimizerConfig rmsprop = Defaults(Kind::kRmsprop);
  rmsprop.alpha = 0.9f;
  rmsprop.centered = true;
  rmsprop.momentum = 0.5f;
  EXPECT_EQ(Read("type: rmsprop\nalpha: 0.9\ncentered: true\nmomentum: 0.5\n"), rmsprop);
}

TEST(OptimizerConfigTest, ReadsWhatAllTypesHave) {
  for (const Kind kind : kKinds) {
    OptimizerConfig config = Defaults(kind);
    config.learning_rate = 0.25f;
    config.weight_decay = 0.125f;
    config.decay_vectors = false;
    config.clipping = {.value = 0.5f, .norm = 2.0f};
    config.schedule = {.type = Schedule::Type::kLinear, .warmup = 10, .steps = 100};
    EXPECT_EQ(Read("type: " + std::string(Name(kind)) +
                   "\nlearning_rate: 0.25\nweight_decay: 0.125\ndecay_vectors: false\nclip_norm: 2\n"
                   "clip_value: 0.5\nschedule: {type: linear, warmup: 10, steps: 100}\n"),
              config);
  }
}

TEST(OptimizerConfigTest, RefusesWhatDoesNotBelong) {
  const char* const bad[] = {
      "learning_rate: 0.1\n",                                 // no type
      "type: adma\n",                                         // unknown type
      "type: sgd\nmomentum: 0.9\n",                           // another type's setting
      "type: sgd\nlearning_rate: -1\n",                       // out of bounds
      "type: momentum\nmomentum: 1\n",                        // never forgets
      "type: adam\nbeta2: 1.0\n",                             // bias correction by zero
      "type: adam\nepsilon: 0\n",                             // 0 / 0 at a zero gradient
      "type: adagrad\nepsilon: 0\ninitial_accumulator: 0\n",  // the same
      "type: adagrad\nbeta1: 0.9\n",
      "type: rmsprop\nalpha: 1\n",
      "type: rmsprop\nepsilon: 0\n",
      "type: lamb\nmomentum: 0.9\n",
      "type: adamw\nweight_decay: -0.1\n",
      "type: sgd\nclip_norm: -1\n",
      "type: sgd\nschedule: cosine\n",  // a map, or nothing
      "type: sgd\nschedule: {type: cosine}\n",
  };
  for (const char* yaml : bad) EXPECT_THROW(Read(yaml), std::invalid_argument) << yaml;
  try {
    Read("type: adma\n");
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("adam"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("job.yaml:1"));
  }
}

}  // namespace
}  // namespace leat::optim
