#include "protocol/slices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using Variables = std::vector<optim::VariableSpec>;

Variables Dense(const std::vector<int64_t>& sizes) {
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

std::vector<uint64_t> Loads(const SliceTable& table, const std::vector<uint32_t>& places, uint32_t servers) {
  std::vector<uint64_t> loads(servers, 0);
  for (size_t i = 0; i < places.size(); ++i) loads[places[i]] += table.slices[i].elements();
  return loads;
}

// The most loaded server's elements over the fair share.
double Imbalance(const SliceTable& table, Placement placement, uint32_t servers) {
  const auto loads = Loads(table, Place(table, placement, servers), servers);
  uint64_t total = 0;
  for (uint64_t load : loads) total += load;
  const uint64_t most = *std::max_element(loads.begin(), loads.end());
  return static_cast<double>(most) * servers / static_cast<double>(total);
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

TEST(Placement, GreedyAndPartitionedAreEven) {
  const std::map<std::string, Variables> nets = {
      {"mnist", Dense({784, 512, 512, 10})},
      {"ingest", Dense({30, 64, 32, 2})},
      {"deep", Dense({256, 256, 256, 256, 256, 256, 1})},
      {"wide", Dense({4096, 4096, 10})},
      {"embedding",
       {{"table", Shape{100000, 16}, {}}, {"weight", Shape{16, 8}, {}}, {"bias", Shape{8}, {}}}}};
  for (const auto& [name, variables] : nets) {
    for (uint32_t servers : {1, 2, 3, 4, 8}) {
      const SliceTable table = MakeSlices(variables, 1, servers);
      EXPECT_LE(Imbalance(table, Placement::kPartitioned, servers), 1.10) << name << " on " << servers;
      EXPECT_LE(Imbalance(table, Placement::kGreedy, servers), 1.10) << name << " on " << servers;
    }
  }
}

TEST(Placement, GreedyKeepsVariablesWholeWhereTheyFit) {
  const SliceTable table = MakeSlices(Dense({64, 64, 64, 64, 64}), 1, 2);
  const auto places = Place(table, Placement::kGreedy, 2);
  for (size_t i = 1; i < places.size(); ++i) {
    if (table.slices[i].variable == table.slices[i - 1].variable) {
      EXPECT_EQ(places[i], places[i - 1]);
    }
  }
}

// Weights and biases alternate, so with two servers one carries all the weights.
TEST(Placement, RoundRobinFallsIntoTheTrapOfPairs) {
  const SliceTable table = MakeSlices(Dense({784, 512, 512, 10}), 1, 2);
  EXPECT_GT(Imbalance(table, Placement::kRoundRobin, 2), 1.9);
  const auto places = Place(table, Placement::kRoundRobin, 2);
  for (size_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i], table.slices[i].variable % 2);
}

TEST(Placement, UsesOnlyTheServersThereAre) {
  const SliceTable table = MakeSlices(Dense({10, 3, 1}), 1, 1);
  for (Placement placement : {Placement::kRoundRobin, Placement::kGreedy, Placement::kPartitioned}) {
    for (uint32_t servers : {1, 2, 50}) {
      const auto places = Place(table, placement, servers);
      ASSERT_EQ(places.size(), table.slices.size());
      for (uint32_t place : places) EXPECT_LT(place, servers);
      EXPECT_EQ(places, Place(table, placement, servers));
    }
  }
}

TEST(SlicesTest, WholeVariablesAreOneSliceEach) {
  Variables variables = Dense({784, 512, 10});
  variables.push_back({"empty", Shape{0, 3}, {}});
  variables.push_back({"scale", Shape{}, {}});
  const SliceTable table = MakeWholeSlices(variables, 7);
  EXPECT_EQ(table.seed, 7u);
  EXPECT_EQ(table.variables, variables);
  ASSERT_EQ(table.slices.size(), 5u) << "none of what has no elements";
  EXPECT_EQ(table.slices[0], (SliceSpec{0, 0, 784 * 512})) << "however large";
  EXPECT_EQ(table.slices[3], (SliceSpec{3, 0, 10}));
  EXPECT_EQ(table.slices[4], (SliceSpec{5, 0, 1}));
  for (const Placement placement : {Placement::kRoundRobin, Placement::kGreedy, Placement::kPartitioned}) {
    for (const uint32_t server : Place(table, placement, 3)) EXPECT_LT(server, 3u);
  }
}

}  // namespace
}  // namespace leat::protocol
