#include "show/report/job_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace leat::report {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsNan;

json Member(const char* role, uint64_t node) {
  return {{"role", role}, {"index", node}, {"node", node}};
}

TEST(StatusFromJson, NestingIsLimited) {
  const auto read = [](size_t levels, const std::string& text) {
    return StatusFromJson(R"({"x":")" + text + R"(","y":)" + std::string(levels, '[') +
                          std::string(levels, ']') + "}");
  };
  EXPECT_EQ(read(200'000, "").status().code(), Code::kDataLoss);
  EXPECT_EQ(read(200'000, R"(]]\"]]\\)").status().code(), Code::kDataLoss);
  EXPECT_TRUE(read(6, R"([[\"]]\\)" + std::string(1000, '{')).ok()) << "a text has no levels";
}

TEST(StatusFromJson, WhateverIsNotAsExpectedIsLeftOut) {
  EXPECT_FALSE(StatusFromJson("[1, 2]").ok());
  EXPECT_FALSE(StatusFromJson("{\"events\": ").ok());
  EXPECT_TRUE(StatusFromJson("{}").ok());
  const auto status = StatusFromJson(
      R"({"events": "many", "loss": null, "lag": -5, "term": 1e300, "staleness": [1, "x"], "warnings": [3, "w"],
          "members": [7, {"index": 99999999999, "unreachable": "ps 0", "slow": 1, "host": 3}], "moves": [],
          "departed": {"number": 1}, "drift": 5, "wanted": []})");
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->events, 0u);
  EXPECT_THAT(status->quality.loss, IsNan());
  EXPECT_EQ(status->term, 0u);
  EXPECT_THAT(status->staleness, ElementsAre(1));
  EXPECT_THAT(status->warnings, ElementsAre("w"));
  ASSERT_EQ(status->members.size(), 1u);
  EXPECT_EQ(status->members[0].name.index, 0u);
  EXPECT_FALSE(status->members[0].worker->slow);
  EXPECT_FALSE(status->moves || status->drift || status->wanted);
}

TEST(StatusFromJson, WhatIsWrittenIsRead) {
  JobStatus status;
  status.checkpoint = "/jobs/a";
  status.variables = {{{"w", 8, {{0, 8}}}}};
  status.members = {{.name = {.role = "worker", .index = 1, .node = 7, .state = "standby"}}};
  status.members[0].worker = WorkerFigures{.longest_step_ms = 5};
  status.members[0].worker->progress.wait_seconds = 1.5;
  const auto read = StatusFromJson(ToJson(status));
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(ToJson(*read), ToJson(status));
  EXPECT_EQ(read->checkpoint, status.checkpoint);
  EXPECT_FALSE(read->test || read->members[0].server || read->members[0].serve);
  EXPECT_EQ(read->members[0].worker->progress.wait_seconds, 1.5);
}

TEST(Trimmed, AllLongListsAreTrimmed) {
  json status = {{"members", {Member("worker", 1)}}};
  for (int i = 0; i < 1000; ++i) {
    status["members"][0]["unreachable"].push_back("ps " + std::to_string(i));
    status["bots"].push_back({{"host", "a"}, {"pid", i}});
    status["stuck_evicted"].push_back({{"role", "worker"}, {"index", i}});
  }
  for (int v = 0; v < 110; ++v) {
    json parts = json::array();
    for (int i = 0; i < 100; ++i) parts.push_back({{"index", i}, {"bytes", i}});
    status["variables"].push_back({{"name", "w"}, {"bytes", v}, {"ps", parts}});
  }
  const std::string trimmed = ToJson(Trimmed(StatusFromJson(status.dump()).value()));
  EXPECT_LT(trimmed.size(), 200'000u);
  const json kept = json::parse(trimmed);
  EXPECT_EQ(kept["variables"].size(), 100u);
  EXPECT_EQ(kept["variables"][0]["ps"].size(), 50u);
  EXPECT_EQ(kept["variables"][0]["ps"][0]["index"], 50) << "the largest parts";
  EXPECT_EQ(kept["variables"][0]["all_ps"], 100);
  EXPECT_EQ(kept["members"][0]["unreachable"].size(), 20u);
  EXPECT_EQ(kept["bots"].size(), 50u);
  EXPECT_EQ(kept["stuck_evicted"].size(), 20u);
}

TEST(Trimmed, KeepsWhatMattersMost) {
  json json_status = {{"members", {Member("ps", 0)}}};
  const auto trimmed = [&] { return Trimmed(StatusFromJson(json_status.dump()).value()); };
  EXPECT_EQ(ToJson(trimmed()), ToJson(StatusFromJson(json_status.dump()).value()));
  for (uint64_t node = 10; node < 1010; ++node) json_status["members"].push_back(Member("worker", node));
  json_status["members"][900]["slow"] = true;
  for (int i = 0; i < 500; ++i)
    json_status["variables"].push_back({{"name", std::to_string(i)}, {"bytes", i}});
  json_status["warnings"] = std::vector<std::string>(500, "w");
  const JobStatus status = trimmed();
  ASSERT_EQ(status.members.size(), 200u);
  EXPECT_EQ(status.all_members, 1001u);
  EXPECT_EQ(status.members[0].name.role, "ps");
  EXPECT_TRUE(status.members[199].worker->slow);
  ASSERT_EQ(status.variables->size(), 100u);
  EXPECT_EQ(status.variables->front().name, "400");
  EXPECT_EQ(status.warnings.size(), 20u);
}

}  // namespace
}  // namespace leat::report
