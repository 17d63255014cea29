#include "optim/optimizer.h"

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

constexpr Kind kKinds[] = {Kind::kSgd, Kind::kMomentum, Kind::kAdagrad, Kind::kAdam};

// A variable with its slots, and a view of any part of it.
struct State {
  State(const OptimizerConfig& config, std::vector<float> w) : values(std::move(w)) {
    for (size_t s = 0; s < SlotNames(config.kind).size(); ++s) {
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

OptimizerConfig Default(Kind kind) {
  OptimizerConfig config;
  config.kind = kind;
  return config;
}

// The same rules, one element at a time, in double.
struct Scalar {
  double w;
  double slot[2];
  void Update(const OptimizerConfig& c, double g, uint64_t step, double scale) {
    const double rate = c.learning_rate * scale;
    switch (c.kind) {
      case Kind::kSgd:
        w -= rate * g;
        break;
      case Kind::kMomentum:
        slot[0] = c.momentum * slot[0] + g;
        w -= rate * slot[0];
        break;
      case Kind::kAdagrad:
        slot[0] += g * g;
        w -= rate * g / (std::sqrt(slot[0]) + c.epsilon);
        break;
      case Kind::kAdam: {
        slot[0] = c.beta1 * slot[0] + (1.0 - c.beta1) * g;
        slot[1] = c.beta2 * slot[1] + (1.0 - c.beta2) * g * g;
        const double t = static_cast<double>(step);
        const double m = slot[0] / (1.0 - std::pow(static_cast<double>(c.beta1), t));
        const double v = slot[1] / (1.0 - std::pow(static_cast<double>(c.beta2), t));
        w -= rate * m / (std::sqrt(v) + c.epsilon);
        break;
      }
    }
  }
};

TEST(OptimizerTest, FollowsTheFormulasInDouble) {
  constexpr size_t kSize = 203;
  for (const Kind kind : kKinds) {
    const OptimizerConfig config = Default(kind);
    State state(config, Normals(kSize, 1));
    std::vector<Scalar> expected;
    for (const float w : state.values) {
      Scalar s{w, {0, 0}};
      for (size_t i = 0; i < state.slots.size(); ++i) s.slot[i] = InitialSlot(config, i);
      expected.push_back(s);
    }
    for (uint64_t step = 1; step <= 50; ++step) {
      const auto gradient = Normals(kSize, 100 + step);
      const float scale = step % 3 == 0 ? 0.5f : 1.0f;
      state.Update(config, gradient, step, scale);
      for (size_t i = 0; i < kSize; ++i) expected[i].Update(config, gradient[i], step, scale);
    }
    for (size_t i = 0; i < kSize; ++i) {
      EXPECT_NEAR(state.values[i], expected[i].w, 1e-5 * (1 + std::abs(expected[i].w))) << Name(kind);
      for (size_t s = 0; s < state.slots.size(); ++s) {
        EXPECT_NEAR(state.slots[s][i], expected[i].slot[s], 1e-5 * (1 + std::abs(expected[i].slot[s])));
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
    OptimizerConfig config = Default(row.kind);
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

  OptimizerConfig momentum = Default(Kind::kMomentum);
  State m(momentum, {2.0f});
  for (uint64_t t = 1; t <= kSteps; ++t) m.Update(momentum, g, t);
  const double u = momentum.momentum;
  const double sum = (kSteps - u * (1 - std::pow(u, kSteps)) / (1 - u)) / (1 - u);
  EXPECT_NEAR(m.values[0], 2.0 - momentum.learning_rate * 0.3 * sum, 1e-4);

  // Both moments are unbiased, so each step is exactly the learning rate.
  OptimizerConfig adam = Default(Kind::kAdam);
  State a(adam, {2.0f});
  for (uint64_t t = 1; t <= kSteps; ++t) a.Update(adam, g, t);
  EXPECT_NEAR(a.values[0], 2.0 - kSteps * adam.learning_rate, 1e-4);
}

TEST(OptimizerTest, AnyPartByItselfComesOutBitForBitTheSame) {
  constexpr size_t kSize = 517;  // no multiple of any vector
  Rng rng(7);
  for (const Kind kind : kKinds) {
    const OptimizerConfig config = Default(kind);
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
          << Name(kind) << " element " << i;
    }
    EXPECT_EQ(whole.slots, parts.slots);
  }
}

// No fused multiply-add anywhere: then the bits are the same for every width of vector, with and without
// sanitizers, and the servers of one job may run on different machines.
TEST(OptimizerTest, RoundsEachOperationByItself) {
  OptimizerConfig config = Default(Kind::kSgd);
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
    const OptimizerConfig config = Default(kind);
    State state(config, {1.5f, -2.0f});
    state.Update(config, std::vector<float>{0, 0}, 1);
    EXPECT_THAT(state.values, testing::ElementsAre(1.5f, -2.0f)) << Name(kind);
  }
}

TEST(OptimizerTest, EmptyPartsAreFine) {
  for (const Kind kind : kKinds) {
    const OptimizerConfig config = Default(kind);
    State state(config, {});
    state.Update(config, {}, 1);
  }
}

TEST(OptimizerTest, NamesAndInitialSlots) {
  EXPECT_THAT(SlotNames(Kind::kSgd), testing::IsEmpty());
  EXPECT_THAT(SlotNames(Kind::kMomentum), testing::ElementsAre("velocity"));
  EXPECT_THAT(SlotNames(Kind::kAdagrad), testing::ElementsAre("accumulator"));
  EXPECT_THAT(SlotNames(Kind::kAdam), testing::ElementsAre("moment1", "moment2"));
  EXPECT_EQ(InitialSlot(Default(Kind::kAdagrad), 0), 0.1f);
  EXPECT_EQ(InitialSlot(Default(Kind::kAdam), 1), 0.0f);
  EXPECT_EQ(Name(Kind::kAdam), "adam");
}

OptimizerConfig Read(const std::string& yaml) {
  return FromConfig(Config::Parse(yaml, "job.yaml"));
}

TEST(OptimizerConfigTest, ReadsEachType) {
  OptimizerConfig sgd = Default(Kind::kSgd);
  sgd.learning_rate = 0.5f;
  EXPECT_EQ(Read("type: sgd\nlearning_rate: 0.5\n"), sgd);
  OptimizerConfig momentum = Default(Kind::kMomentum);
  momentum.momentum = 0.95f;
  EXPECT_EQ(Read("type: momentum\nmomentum: 0.95\n"), momentum);
  OptimizerConfig adagrad = Default(Kind::kAdagrad);
  adagrad.initial_accumulator = 0.0f;
  EXPECT_EQ(Read("type: adagrad\ninitial_accumulator: 0\n"), adagrad);
  OptimizerConfig adam = Default(Kind::kAdam);
  adam.beta1 = 0.8f;
  adam.beta2 = 0.99f;
  adam.epsilon = 1e-6f;
  EXPECT_EQ(Read("type: adam\nbeta1: 0.8\nbeta2: 0.99\nepsilon: 1e-6\n"), adam);
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
  };
  for (const char* yaml : bad) EXPECT_THROW(Read(yaml), std::invalid_argument) << yaml;
  try {
    Read("type: adma\n");
  } catch (const std::invalid_argument& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("adam"));
    EXPECT_THAT(e.what(), testing::HasSubstr("job.yaml:1"));
  }
}

}  // namespace
}  // namespace leat::optim
