#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "measure.h"
#include "report.h"

namespace leat::bench {
namespace {

TEST(ReportTest, OneJsonObjectARow) {
  EXPECT_EQ(
      ToJson("step", {.name = "mlp", .value = 3, .unit = "ms", .reference = "a \"b\"", .reference_value = 2}),
      R"({"bench":"step","case":"mlp","value":3,"unit":"ms","reference":"a \"b\"",)"
      R"("reference_value":2,"ratio":1.5})");
  EXPECT_EQ(ToJson("step", {.name = "x\n", .value = NAN, .unit = "s"}),
            R"({"bench":"step","case":"x\u000a","value":null,"unit":"s","reference":null,)"
            R"("reference_value":null,"ratio":null})");
}

TEST(ReportTest, AMeasuredRatioIsKept) {
  const std::string json = ToJson(
      "b", {.name = "c", .value = 3, .unit = "s", .reference = "r", .reference_value = 2, .ratio = 1.4});
  EXPECT_NE(json.find("\"ratio\":1.4}"), std::string::npos) << json;
}

TEST(ReportTest, WhatTheHostStoleIsAShareOfWhatWasWanted) {
  EXPECT_EQ(StolenBetween({.busy = 100, .stolen = 10}, {.busy = 190, .stolen = 20}),
            "10.0 % stolen by the host");
  EXPECT_EQ(StolenBetween({.busy = 100, .stolen = 10}, {.busy = 190, .stolen = 10}), "");
  EXPECT_GT(Ticks::Now().busy, 0);
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
