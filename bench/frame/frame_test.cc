#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "measure.h"
#include "report.h"

namespace leat::bench {
namespace {

TEST(ReportTest, OneJsonObjectARow) {
  EXPECT_EQ(
      ToJson("step", {.name = "mlp", .value = 3, .unit = "ms", .reference = "a \"b\"", .reference_value = 2}),
      R"({"bench":"step","case":"mlp","value":3,"unit":"ms","reference":"a \"b\"","reference_value":2,)"
      R"("ratio":1.5,"runs":null,"bound":null,"bound_of":null,"direction":null,"holds":null})");
  EXPECT_EQ(
      ToJson("step", {.name = "x\n", .value = NAN, .unit = "s"}),
      R"({"bench":"step","case":"x\u000a","value":null,"unit":"s","reference":null,)"
      R"("reference_value":null,"ratio":null,"runs":null,"bound":null,"bound_of":null,"direction":null,)"
      R"("holds":null})");
}

TEST(ReportTest, AMeasuredRatioIsKept) {
  const std::string json = ToJson(
      "b", {.name = "c", .value = 3, .unit = "s", .reference = "r", .reference_value = 2, .ratio = 1.4});
  EXPECT_NE(json.find("\"ratio\":1.4,"), std::string::npos) << json;
}

TEST(ReportTest, ABoundIsANumberWithADirection) {
  const std::string json = ToJson("b", {.name = "c",
                                        .value = 3,
                                        .unit = "s",
                                        .reference = "r",
                                        .reference_value = 2,
                                        .runs = 5,
                                        .bound = RatioAtMost(1.25)});
  EXPECT_NE(json.find(R"("runs":5,"bound":1.25,"bound_of":"ratio","direction":"<=","holds":false})"),
            std::string::npos)
      << json;
}

TEST(ReportTest, WhichBoundsHold) {
  const auto holds = [](double value, Bound bound) {
    return Holds({.value = value, .reference = "r", .reference_value = 2, .bound = bound});
  };
  EXPECT_EQ(holds(4, {}), std::nullopt);
  EXPECT_EQ(holds(4, ValueAtMost(4)), true);
  EXPECT_EQ(holds(4.1, ValueAtMost(4)), false);
  EXPECT_EQ(holds(4, ValueAtLeast(4)), true);
  EXPECT_EQ(holds(3.9, ValueAtLeast(4)), false);
  EXPECT_EQ(holds(2, RatioAtMost(1)), true);
  EXPECT_EQ(holds(2, RatioBelow(1)), false);
  EXPECT_EQ(holds(1.9, RatioBelow(1)), true);
  EXPECT_EQ(holds(1.9, RatioAtLeast(1)), false);
  EXPECT_EQ(holds(NAN, ValueAtMost(4)), false);
  EXPECT_EQ(Holds({.value = 1, .bound = RatioAtMost(1)}), false) << "there is no reference";
}

TEST(ReportTest, TheMedianRowTakesRatiosRunByRun) {
  const Row row = MedianRow("c", {1, 10, 3}, "s", "r", {2, 10, 4});
  EXPECT_EQ(row.value, 3);
  EXPECT_EQ(row.reference_value, 4);
  EXPECT_EQ(row.ratio, 0.75);
  EXPECT_EQ(row.runs, 3u);
}

TEST(ReportTest, TheWorstRowHasTheLargestValue) {
  const Row row = WorstRow("c", {1, 10, 3}, "s", ValueAtMost(9));
  EXPECT_EQ(row.value, 10);
  EXPECT_EQ(row.runs, 3u);
  EXPECT_EQ(Holds(row), false);
  EXPECT_EQ(WorstRow("c", {1, 10, 3}, "1/s", ValueAtLeast(2)).value, 1);
}

// The stderr and exit status of a benchmark with these arguments and rows.
struct Outcome {
  int status = 0;
  std::string said;
};
Outcome RunBench(std::vector<const char*> words, const std::vector<Row>& rows, const std::string& skip = "") {
  words.insert(words.begin(), "bench_b");
  Args args(static_cast<int>(words.size()), const_cast<char**>(words.data()));
  args.RefuseTheRest();
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Outcome outcome;
  {
    Report report("b", args);
    for (const Row& row : rows) report.Add(row);
    if (!skip.empty()) report.Skip(skip);
    outcome.status = report.Finish();
  }
  testing::internal::GetCapturedStdout();
  outcome.said = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(CheckTest, AMissedBoundIsNamedAndEndsWithOne) {
  const std::vector<Row> rows = {
      {.name = "good", .value = 1, .unit = "s", .runs = 3, .bound = ValueAtMost(2)},
      {.name = "bad", .value = 3, .unit = "s", .runs = 3, .bound = ValueAtMost(2)}};
  const Outcome checked = RunBench({"--check"}, rows);
  EXPECT_EQ(checked.status, 1);
  EXPECT_NE(checked.said.find("bench b: missed: bad: 3.00 s, must be ≤ 2\n"), std::string::npos)
      << checked.said;
  EXPECT_EQ(checked.said.find("good"), std::string::npos) << checked.said;
  EXPECT_EQ(RunBench({"--check", "--json"}, rows).status, 1);
  EXPECT_EQ(RunBench({}, rows).status, 0) << "only --check makes it a failure";
  EXPECT_EQ(RunBench({"--check"}, {rows[0]}).status, 0);
}

TEST(CheckTest, HelpListsTheOptions) {
  const auto run = [] {
    const char* words[] = {"bench_b", "--help"};
    Args args(2, const_cast<char**>(words));
    args.Number("--seconds", 4);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    args.RefuseTheRest();
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), "--json\n  --check\n  --seconds NUMBER \\(4\\)\n");
}

TEST(CheckTest, WhatWasNotMeasuredIsNotChecked) {
  EXPECT_EQ(RunBench({"--check"}, {}, "needs two cores").status, 1);
  EXPECT_EQ(RunBench({}, {}, "needs two cores").status, 0);
}

TEST(CheckTest, TooFewRunsAreToldOf) {
  EXPECT_NE(RunBench({}, {{.name = "row", .value = 1, .runs = 2}}).said.find("warning: row"),
            std::string::npos);
  EXPECT_EQ(RunBench({}, {{.name = "row", .value = 1, .runs = 3}}).said.find("warning: row"),
            std::string::npos);
}

TEST(StolenTest, IsAShareOfWhatWasWantedAndWarnedOfBeyondATenth) {
  EXPECT_DOUBLE_EQ(StolenShare({.busy = 100, .stolen = 10}, {.busy = 190, .stolen = 20}), 0.1);
  EXPECT_EQ(StolenShare({.busy = 100, .stolen = 10}, {.busy = 190, .stolen = 10}), 0);
  EXPECT_GT(Ticks::Now().busy, 0);
  EXPECT_EQ(StolenWarning(0.1), "");
  EXPECT_NE(StolenWarning(0.12).find("12.0 %"), std::string::npos);
}

TEST(MeasureTest, MedianOfOddEvenAndNone) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({}), 0);
}

TEST(MeasureTest, BothAreRunInTurn) {
  std::string order;
  const Comparison c = Compare([&] { order += 'a'; }, [&] { order += 'b'; }, 0);
  EXPECT_GT(c.a, 0);
  EXPECT_GT(c.ratio, 0);
  EXPECT_NE(order.find("ab"), std::string::npos);
  EXPECT_NE(order.find("ba"), std::string::npos);
}

}  // namespace
}  // namespace leat::bench
