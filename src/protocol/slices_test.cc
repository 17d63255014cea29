#include "protocol/slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using Variables = std::vector<optim::VariableSpec>;

Variables DenseVariables(const std::vector<int64_t>& sizes) {
  Variables variables;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    const std::string name = "dense" + std::to_string(i);
    variables.push_back({name + "/weight", Shape{sizes[i], sizes[i + 1]}, {}});
    variables.push_back({name + "/bias", Shape{sizes[i + 1]}, {}});
  }
  return variables;
}

Variables RandomVariables(Rng* rng) {
  Variables variables;
  const uint64_t n = 1 + rng->Below(8);
  for (uint64_t i = 0; i < n; ++i) {
    const auto rows = static_cast<int64_t>(1 + rng->Below(rng->Chance(0.5) ? 3 : 300));
    const auto columns = static_cast<int64_t>(1 + rng->Below(100));
    variables.push_back({"v" + std::to_string(i), Shape{rows, columns}, {}});
  }
  return variables;
}

TEST(Slices, CoverEveryElementOnceInOrder) {
  Rng rng(1);
  for (int round = 0; round < 300; ++round) {
    const Variables variables = RandomVariables(&rng);
    const auto servers = static_cast<uint32_t>(1 + rng.Below(10));
    const uint64_t most = 64 << rng.Below(12);
    const SliceTable table = MakeSlices(variables, 5, servers, most);
    EXPECT_EQ(table.variables, variables);
    EXPECT_EQ(table.seed, 5u);

    uint64_t total = 0;
    std::map<uint32_t, uint64_t> pieces;
    for (const auto& slice : table.slices) ++pieces[slice.variable];
    uint32_t variable = 0;
    uint64_t at = 0;
    for (const SliceSpec& slice : table.slices) {
      if (slice.variable != variable) {
        EXPECT_EQ(at, static_cast<uint64_t>(variables[variable].shape.elements()));
        ASSERT_EQ(slice.variable, ++variable);
        at = 0;
      }
      EXPECT_EQ(slice.begin, at);
      EXPECT_GT(slice.end, slice.begin);
      EXPECT_LE(slice.elements() * sizeof(float), most);
      const auto elements = static_cast<uint64_t>(variables[variable].shape.elements());
      if (pieces[variable] * 16 <= elements) {
        EXPECT_EQ(slice.begin % 16, 0u);
      }
      at = slice.end;
      total += slice.elements();
    }
    ASSERT_EQ(variable + 1, variables.size());
    EXPECT_EQ(at, static_cast<uint64_t>(variables.back().shape.elements()));
    EXPECT_GE(table.slices.size(), std::min<uint64_t>(12 * servers, total));
  }
}

TEST(Slices, CutTheLargestVariablesFinest) {
  const SliceTable table = MakeSlices({{"large", Shape{1000, 64}, {}}, {"small", Shape{64}, {}}}, 1, 2);
  const auto small = std::count_if(table.slices.begin(), table.slices.end(),
                                   [](const SliceSpec& slice) { return slice.variable == 1; });
  EXPECT_EQ(small, 1);
  EXPECT_EQ(table.slices.size(), 24u);
}

TEST(Slices, OfAnEmptyVariableThereAreNone) {
  const SliceTable table = MakeSlices({{"none", Shape{0, 5}, {}}, {"some", Shape{3}, {}}}, 1, 1);
  EXPECT_EQ(table.slices.size(), 3u);
  for (const SliceSpec& slice : table.slices) EXPECT_EQ(slice.variable, 1u);
}

TEST(Slices, MomentsAreOneHoweverLarge) {
  const auto moments = optim::VariableRole::kMoments;
  const SliceTable table = MakeSlices({{"moments", Shape{3, 5000, 2}, {}, moments}, {"w", Shape{64}, {}}}, 1,
                                      2, /*max_slice_bytes=*/1 << 10);
  ASSERT_EQ(table.slices.size(), 24u);
  EXPECT_EQ(table.slices[0], (SliceSpec{0, 0, 30'000}));
  EXPECT_EQ(table.slices[1].variable, 1u);
  EXPECT_EQ(MomentsVariable(table), 0u);
  EXPECT_EQ(MomentsVariable(MakeSlices({{"w", Shape{64}, {}}}, 1, 2)), std::nullopt);
}

TEST(SlicesTest, WholeVariablesAreOneSliceEach) {
  Variables variables = DenseVariables({784, 512, 10});
  variables.push_back({"empty", Shape{0, 3}, {}});
  variables.push_back({"scale", Shape{}, {}});
  const SliceTable table = MakeWholeSlices(variables, 7);
  EXPECT_EQ(table.seed, 7u);
  EXPECT_EQ(table.variables, variables);
  ASSERT_EQ(table.slices.size(), 5u) << "none of what has no elements";
  EXPECT_EQ(table.slices[0], (SliceSpec{0, 0, 784 * 512})) << "however large";
  EXPECT_EQ(table.slices[3], (SliceSpec{3, 0, 10}));
  EXPECT_EQ(table.slices[4], (SliceSpec{5, 0, 1}));
}

}  // namespace
}  // namespace leat::protocol
