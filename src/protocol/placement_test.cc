#include "protocol/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <stdexcept>

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

std::vector<uint64_t> Loads(const SliceTable& table, const std::vector<uint32_t>& places, uint32_t servers) {
  std::vector<uint64_t> loads(servers, 0);
  for (size_t i = 0; i < places.size(); ++i) loads[places[i]] += table.slices[i].elements();
  return loads;
}

// The most loaded server's elements relative to the fair share.
double Imbalance(const SliceTable& table, Placement::Kind kind, uint32_t servers) {
  const auto loads = Loads(table, Place(table, kind, servers), servers);
  uint64_t total = 0;
  for (uint64_t load : loads) total += load;
  const uint64_t most = *std::max_element(loads.begin(), loads.end());
  return static_cast<double>(most) * servers / static_cast<double>(total);
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

// Weights and biases alternate, so with two servers one has all the weights.
TEST(Placement, RoundRobinIsUnevenForAlternatingSizes) {
  const SliceTable table = MakeSlices(Dense({784, 512, 512, 10}), 1, 2);
  EXPECT_GT(Imbalance(table, Placement::kRoundRobin, 2), 1.9);
  const auto places = Place(table, Placement::kRoundRobin, 2);
  for (size_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i], table.slices[i].variable % 2);
}

TEST(Placement, UsesOnlyTheServersThereAre) {
  const SliceTable table = MakeSlices(Dense({10, 3, 1}), 1, 1);
  for (const auto kind : {Placement::kRoundRobin, Placement::kGreedy, Placement::kPartitioned}) {
    for (uint32_t servers : {1, 2, 50}) {
      const auto places = Place(table, kind, servers);
      ASSERT_EQ(places.size(), table.slices.size());
      for (uint32_t place : places) EXPECT_LT(place, servers);
      EXPECT_EQ(places, Place(table, kind, servers));
    }
  }
}

TEST(Placement, WholeVariablesArePlaced) {
  const SliceTable table = MakeWholeSlices(Dense({784, 512, 10}), 7);
  for (const auto kind : {Placement::kRoundRobin, Placement::kGreedy, Placement::kPartitioned}) {
    for (const uint32_t server : Place(table, kind, 3)) EXPECT_LT(server, 3u);
  }
}

std::vector<uint32_t> Placed(const SliceTable& table, const Placement& placement, uint32_t servers) {
  const auto places = Place(table, placement, servers);
  EXPECT_TRUE(places.ok()) << places.status().ToString();
  return places.ok() ? *places : std::vector<uint32_t>(table.slices.size());
}

TEST(Placement, WeightedServersCarryTheirShare) {
  const SliceTable table = MakeSlices(Dense({784, 512, 512, 10}), 1, 3);
  Placement placement = Placement::kWeighted;
  placement.weights = {1, 2, 5};
  const auto loads = Loads(table, Placed(table, placement, 3), 3);
  const double total = static_cast<double>(loads[0] + loads[1] + loads[2]);
  for (size_t i = 0; i < 3; ++i) {
    const double share = placement.weights[i] / 8;
    EXPECT_NEAR(static_cast<double>(loads[i]) / total, share, 0.1 * share) << i;
  }
  placement.weights = {0, 1, 1};
  EXPECT_EQ(Loads(table, Placed(table, placement, 3), 3)[0], 0u);
  placement.weights = {1, 1, 1};
  EXPECT_EQ(Placed(table, placement, 3), Place(table, Placement::kPartitioned, 3));
}

TEST(Placement, ExcludedServersCarryNothing) {
  const SliceTable table = MakeSlices(Dense({784, 512, 512, 10}), 1, 3);
  for (const auto kind :
       {Placement::kRoundRobin, Placement::kGreedy, Placement::kPartitioned, Placement::kWeighted}) {
    Placement placement = kind;
    if (kind == Placement::kWeighted) placement.weights = {5, 1, 1};
    placement.exclude = {0};
    const auto loads = Loads(table, Placed(table, placement, 3), 3);
    EXPECT_EQ(loads[0], 0u) << int{kind};
    EXPECT_GT(loads[1], 0u);
    EXPECT_GT(loads[2], 0u);
    if (kind == Placement::kRoundRobin) continue;
    EXPECT_NEAR(static_cast<double>(loads[1]), static_cast<double>(loads[2]),
                0.1 * static_cast<double>(loads[1]));
  }
}

TEST(Placement, TheUsersOwnFunctionIsCheckedWhenItReturns) {
  const SliceTable table = MakeSlices(Dense({10, 3, 1}), 1, 1);
  Placement placement = Placement::kOwn;
  EXPECT_FALSE(Place(table, placement, 2).ok());
  const auto with = [&](PlacementFunction own) {
    placement.own = std::move(own);
    return Place(table, placement, 2);
  };
  const auto good = with([](const SliceTable& t, uint32_t servers) {
    std::vector<uint32_t> places(t.slices.size());
    for (size_t i = 0; i < places.size(); ++i) places[i] = i % servers == 0 ? 1 : 0;
    return places;
  });
  ASSERT_TRUE(good.ok());
  EXPECT_EQ((*good)[0], 1u);
  EXPECT_EQ((*good)[1], 0u);
  const auto few = with([](const SliceTable&, uint32_t) { return std::vector<uint32_t>(1); });
  EXPECT_NE(few.status().message().find("placed 1 slices, there are"), std::string::npos);
  const auto far =
      with([](const SliceTable& t, uint32_t) { return std::vector<uint32_t>(t.slices.size(), 2); });
  EXPECT_NE(far.status().message().find("slice 0 of 'dense0/weight' on server 2 of 2"), std::string::npos);
  const auto thrown =
      with([](const SliceTable&, uint32_t) -> std::vector<uint32_t> { throw std::runtime_error("no idea"); });
  EXPECT_NE(thrown.status().message().find("no idea"), std::string::npos);
  for (const auto& refused : {few, far, thrown}) EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
}

// ---- from a job file

Placement ReadPlacement(const std::string& text) {
  return PlacementFromConfig(Config::Parse("placement: " + text, "job.yaml").At("placement"));
}

std::string PlacementMistake(const std::string& text, uint32_t servers) {
  try {
    return Check(ReadPlacement(text), servers).message();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(Placement, IsReadFromAWordOrAMap) {
  EXPECT_EQ(ReadPlacement("round_robin").kind, Placement::kRoundRobin);
  EXPECT_EQ(ReadPlacement("partitioned").kind, Placement::kPartitioned);
  const auto greedy = ReadPlacement("{type: greedy, exclude: [0, 2]}");
  EXPECT_EQ(greedy.kind, Placement::kGreedy);
  EXPECT_EQ(greedy.exclude, (std::vector<uint32_t>{0, 2}));
  const auto weighted = ReadPlacement("{type: weighted, weights: [1, 2.5]}");
  EXPECT_EQ(weighted.kind, Placement::kWeighted);
  EXPECT_EQ(weighted.weights, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(PlacementMistake("{type: weighted, weights: [1, 2.5], exclude: [0]}", 2), "");
}

TEST(Placement, InvalidPlacementsAreRejectedInOneLine) {
  for (const auto& [text, says] :
       {std::pair{"gredy", "did you mean 'greedy'"},
        {"{type: greedy, weights: [1, 2]}", "job.yaml:1: weights are for"},
        {"weighted", "job.yaml:1: the placement weighted takes weights"},
        {"{type: weighted, weights: 3}", "a list"},
        {"{type: weighted, weights: [1, 2, 3]}", "3 weights for 2 servers"},
        {"{type: weighted, weights: [1, -2]}", "a weight is -2"},
        {"{type: weighted, weights: [0, 0]}", "no server of 2 servers"},
        {"{type: weighted, weights: [1, 0], exclude: [0]}", "no server"},
        {"{type: greedy, exclude: [2]}", "server 2 of 2 servers; servers are numbered from 0"},
        {"{type: greedy, exclude: [0, 1]}", "no server of 2 servers"},
        {"{type: greedy, exclude: [-1]}", "exclude names server -1"},
        {"{type: greedy, exclude: 0}", "a list"},
        {"{type: greedy, excludes: [0]}", "did you mean 'exclude'"}}) {
    EXPECT_NE(PlacementMistake(text, 2).find(says), std::string::npos)
        << text << ": " << PlacementMistake(text, 2);
  }
}

// ---- reports

PlacementReport Reported(const SliceTable& table, const Placement& placement, uint32_t servers,
                         size_t slots = 0) {
  return Describe(table, placement, Placed(table, placement, servers), servers, slots);
}

TEST(Placement, AServerWithAllWeightsCausesAWarning) {
  const SliceTable table = MakeSlices(Dense({784, 512, 512, 10}), 1, 2);
  const auto trap = Reported(table, Placement::kRoundRobin, 2);
  ASSERT_EQ(trap.warnings.size(), 1u);
  EXPECT_EQ(
      trap.warnings[0],
      "ps 0 carries 99% of the bytes (fair: 50%): dense0/weight 1.6 MB, dense1/weight 1.0 MB, dense2/weight "
      "20.5 KB; placement: greedy spreads them");
  EXPECT_GT(trap.servers[0].share, 0.99);
  EXPECT_EQ(trap.servers[1].variables[0].name, "dense0/bias");
  for (const auto kind : {Placement::kGreedy, Placement::kPartitioned}) {
    const auto even = Reported(table, kind, 2);
    EXPECT_TRUE(even.warnings.empty());
    for (const auto& server : even.servers) EXPECT_NEAR(server.share, 0.5, 0.05);
  }
}

TEST(Placement, TwiceTheFairShareIsTheLimit) {
  SliceTable table;
  table.variables = {{"a", Shape{100}, {}}, {"b", Shape{100}, {}}, {"c", Shape{100}, {}}};
  const auto with = [&](uint64_t a, uint64_t b, uint64_t c) {
    table.slices = {{0, 0, a}, {1, 0, b}, {2, 0, c}};
    return Reported(table, Placement::kRoundRobin, 3).warnings.size();
  };
  EXPECT_EQ(with(66, 17, 17), 0u);
  EXPECT_EQ(with(67, 17, 16), 1u);
  EXPECT_EQ(with(1, 98, 1), 1u);
}

TEST(Placement, SlotsOfTheOptimizerAreCarriedToo) {
  SliceTable table;
  table.variables = {{"w", Shape{100}, {}}, {"mean", Shape{50}, {}, optim::VariableRole::kStatistic}};
  table.slices = {{0, 0, 100}, {1, 0, 50}};
  const auto report = Reported(table, Placement::kRoundRobin, 2, 2);
  EXPECT_EQ(report.servers[0].bytes, 1200u) << "values and two slots";
  EXPECT_EQ(report.servers[1].bytes, 200u) << "a statistic has none";
  EXPECT_EQ(report.bytes, 1400u);
}

TEST(Placement, RequestedWeightsCauseNoWarning) {
  const SliceTable table = MakeSlices(Dense({784, 512, 512, 10}), 1, 3);
  Placement weighted = Placement::kWeighted;
  weighted.weights = {1, 9, 1};
  EXPECT_TRUE(Reported(table, weighted, 3).warnings.empty());
  Placement without = Placement::kGreedy;
  without.exclude = {0, 1};
  EXPECT_TRUE(Reported(table, without, 3).warnings.empty());
  EXPECT_TRUE(Reported(table, Placement::kGreedy, 1).warnings.empty());
  Placement own = Placement::kOwn;
  own.own = [](const SliceTable& t, uint32_t) { return std::vector<uint32_t>(t.slices.size(), 2); };
  const auto all_on_one = Reported(table, own, 3);
  ASSERT_EQ(all_on_one.warnings.size(), 1u);
  EXPECT_NE(all_on_one.warnings[0].find("ps 2 carries 100% of the bytes (fair: 33%)"), std::string::npos);
}

// An indivisible variable is larger than all others together: no placement helps, and none is suggested.
TEST(Placement, NothingIsSuggestedIfNothingHelps) {
  const SliceTable table = MakeWholeSlices(Dense({784, 512, 10}), 1);
  const auto report = Reported(table, Placement::kRoundRobin, 2);
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_EQ(report.warnings[0].find("placement:"), std::string::npos);
}

TEST(Placement, BytesAreReadable) {
  EXPECT_EQ(BytesText(999), "999 bytes");
  EXPECT_EQ(BytesText(1000), "1.0 KB");
  EXPECT_EQ(BytesText(1'650'000), "1.6 MB");
  EXPECT_EQ(BytesText(999'960), "1.0 MB");
  EXPECT_EQ(BytesText(3'000'000'000'000'000), "3000.0 TB");
}

}  // namespace
}  // namespace leat::protocol
