#include "protocol/allreduce/training_state.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "compute/optim/moments.h"

namespace leat::protocol {
namespace {

std::vector<float> Random(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> values(n);
  for (float& x : values) x = static_cast<float>(rng.Uniform()) - 0.5f;
  return values;
}

class AppliedTerms : public ::testing::TestWithParam<optim::Kind> {};

// Adding terms during the update gives the same bits as adding them before.
TEST_P(AppliedTerms, AreTheStepOfTheirSum) {
  const SliceTable table = MakeSlices({{"kernel", Shape{97, 113}, {}},
                                       {"mean", Shape{5}, {}, optim::VariableRole::kStatistic},
                                       {"bias", Shape{4'097}, {}}},
                                      3, 2);
  const StrategyConfig strategy{.full_run = 8};
  const optim::OptimizerConfig optimizer = optim::Defaults(GetParam());
  for (size_t count = 1; count <= 3; ++count) {
    SCOPED_TRACE(std::to_string(count) + " terms");
    Parameters summed(table), apart(table);
    TrainingState with_sum(table, optimizer, strategy, &summed),
        with_terms(table, optimizer, strategy, &apart);
    with_sum.Make({});
    with_terms.Make({});
    for (uint64_t step = 0; step < 3; ++step) {
      const size_t all = summed.all_gradients().size();
      std::vector<std::vector<float>> given;
      for (size_t i = 0; i < count; ++i) given.push_back(Random(all, 10 * step + i));
      const GradientTerms terms(given.begin(), given.end());
      optim::SetSum(summed.all_gradients(), terms, 0, 1.0f);
      std::ranges::copy(given[0], apart.all_gradients().begin());
      const uint64_t events = step == 1 ? 8 * count : 8 * count - 3;
      with_sum.Apply(events);
      with_terms.Apply(events, terms);
      with_sum.Complete(events);
      with_terms.Complete(events);
      EXPECT_TRUE(std::ranges::equal(given[0], apart.all_gradients())) << "others look at it";
    }
    const auto a = with_sum.Memory(), b = with_terms.Memory();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(
          std::ranges::equal(a[i], b[i], {}, std::bit_cast<uint32_t, float>, std::bit_cast<uint32_t, float>))
          << i;
    }
  }
}

TEST(TrainingState, AStepIsMadeAtItsRateAndStatisticsHaveNone) {
  const SliceTable table =
      MakeSlices({{"w", Shape{3}, {}}, {"mean", Shape{2}, {}, optim::VariableRole::kStatistic}}, 1, 1);
  Parameters parameters(table);
  TrainingState state(table, {.kind = optim::Kind::kSgd, .learning_rate = 0.5f}, {.full_run = 8},
                      &parameters);
  state.Make({});
  const auto moved = [&](size_t variable, float rate) {
    const float before = parameters.values(variable)[0];
    std::ranges::fill(parameters.all_gradients(), 8.0f);
    state.Apply(8, {}, rate);
    return before - parameters.values(variable)[0];
  };
  for (const size_t variable : {0u, 1u}) {
    const float once = moved(variable, 1);
    EXPECT_GT(once, 0);
    EXPECT_NEAR(moved(variable, 3), variable == 0 ? 3 * once : once, 1e-4);
  }
}

TEST(TrainingState, MomentsAreMergedAndTravelBitForBit) {
  const SliceTable table =
      MakeSlices({{"moments", Shape{3, 2, 2}, {}, optim::VariableRole::kMoments}, {"w", Shape{3}, {}}}, 1, 1);
  Parameters parameters(table), others(table);
  TrainingState state(table, optim::Defaults(optim::Kind::kAdam), {.full_run = 8}, &parameters);
  state.Make({});
  std::vector<float> expected(12), step(12);
  Rng rng(1);
  for (int i = 0; i < 4; ++i) {
    for (size_t f = 0; f < 2; ++f)
      optim::PutMoments(step, f, {1 + rng.Below(9), rng.Normal(), rng.Uniform()});
    // The gradients and terms hold none.
    std::ranges::fill(parameters.all_gradients(), 1.0f);
    const std::vector<float> term(parameters.all_gradients().size(), 1.0f);
    state.Apply(8, i % 2 == 0 ? GradientTerms{term} : GradientTerms{}, /*rate=*/3, step);
    state.Complete(8);
    optim::MergeMoments(expected, step);
    EXPECT_EQ(std::memcmp(parameters.values(size_t{0}).data(), expected.data(), 12 * sizeof(float)), 0);
  }
  EXPECT_EQ(state.SlotsOf(SliceId(0)), 0u);

  TrainingState other(table, optim::Defaults(optim::Kind::kAdam), {.full_run = 8}, &others);
  std::vector<float> memory;
  for (const auto& part : state.Memory()) memory.insert(memory.end(), part.begin(), part.end());
  ASSERT_TRUE(other.Adopt(state.header(), memory, 0).ok());
  EXPECT_EQ(std::memcmp(others.values(size_t{0}).data(), expected.data(), 12 * sizeof(float)), 0);
  const auto copy = other.Copy(SliceId(0), Incarnation(1));
  EXPECT_EQ(std::memcmp(copy->values().data(), expected.data(), 12 * sizeof(float)), 0);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, AppliedTerms,
                         ::testing::Values(optim::Kind::kSgd, optim::Kind::kMomentum, optim::Kind::kAdam,
                                           optim::Kind::kLamb),
                         [](const auto& given) { return std::string(optim::Name(given.param)); });

}  // namespace
}  // namespace leat::protocol
