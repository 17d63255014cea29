#include "observe/history/sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "observe/history/testing.h"

namespace leat::observe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsNan;

class SamplerTest : public ::testing::Test {
 protected:
  Sample Next(double time_s) {
    auto reading = ReadStatus(status_.dump(), time_s);
    EXPECT_TRUE(reading.ok());
    return sampler_.OnReading(std::move(*reading));
  }

  json status_ = StatusJson();
  Sampler sampler_;
};

TEST_F(SamplerTest, FiguresAreThoseOfTheStatus) {
  status_["lag"] = 70;
  status_["lag_s"] = 1.5;
  status_["events_per_s_now"] = 40'000.0;
  const Sample sample = Next(1000);
  EXPECT_EQ(sample.time_s, 1000);
  EXPECT_EQ(sample[Series::kLoss], 0.5f);
  EXPECT_EQ(sample[Series::kAccuracy], 0.75f);
  EXPECT_EQ(sample[Series::kAuc], 0.625f);
  EXPECT_EQ(sample[Series::kAucPossible], 0.875f);
  EXPECT_EQ(sample[Series::kLag], 70);
  EXPECT_EQ(sample[Series::kLagS], 1.5f);
  EXPECT_EQ(sample[Series::kEventsPerS], 40'000);
  EXPECT_EQ(sample[Series::kWorkers], 2);
  EXPECT_EQ(sample[Series::kServers], 2);
  EXPECT_THAT(sample[Series::kMae], IsNan()) << "the job has none";
  EXPECT_THAT(sample[Series::kArrivedPerS], IsNan()) << "nothing to compare with";
  ASSERT_EQ(sample.members.size(), 4u);
  EXPECT_THAT(sample.members[0].figures[0], IsNan());
}

TEST(ReadStatusTest, NestingIsLimited) {
  const auto read = [](size_t levels, const std::string& text) {
    std::string trimmed;
    return ReadStatus(
        R"({"x":")" + text + R"(","y":)" + std::string(levels, '[') + std::string(levels, ']') + "}", 1,
        &trimmed);
  };
  EXPECT_EQ(read(200'000, "").status().code(), Code::kDataLoss);
  EXPECT_EQ(read(200'000, R"(]]\"]]\\)").status().code(), Code::kDataLoss);
  EXPECT_TRUE(read(30, R"([[\"]]\\)" + std::string(1000, '{')).ok()) << "a text has no levels";
}

TEST(ReadStatusTest, AllLongListsAreTrimmed) {
  json status = StatusJson();
  for (int i = 0; i < 1000; ++i) {
    status["members"][2]["unreachable"].push_back("ps " + std::to_string(i));
    status["bots"].push_back({{"host", "a"}, {"pid", i}});
    status["stuck_evicted"].push_back({{"role", "worker"}, {"index", i}});
  }
  for (int v = 0; v < 110; ++v) {
    json parts = json::array();
    for (int i = 0; i < 100; ++i) parts.push_back({{"index", i}, {"bytes", i}});
    status["variables"].push_back({{"name", "w"}, {"bytes", v}, {"ps", parts}});
  }
  std::string trimmed;
  ASSERT_TRUE(ReadStatus(status.dump(), 1, &trimmed).ok());
  EXPECT_LT(trimmed.size(), 200'000u);
  const json kept = json::parse(trimmed);
  EXPECT_EQ(kept["variables"].size(), 100u);
  EXPECT_EQ(kept["variables"][0]["ps"].size(), 50u);
  EXPECT_EQ(kept["variables"][0]["ps"][0]["index"], 50) << "the largest parts";
  EXPECT_EQ(kept["variables"][0]["all_ps"], 100);
  EXPECT_EQ(kept["members"][2]["unreachable"].size(), 20u);
  EXPECT_EQ(kept["bots"].size(), 50u);
  EXPECT_EQ(kept["stuck_evicted"].size(), 20u);
}

TEST_F(SamplerTest, SumsBecomeRatesOfTheLastSeconds) {
  for (int second = 0; second <= 10; ++second) {
    status_["stream_end"] = 1000 * second;
    status_["aggregated_compute_s"] = 1.5 * second;
    status_["dead_letters"] = 2 * second;
    auto& server = status_["members"][0];
    server["bytes_in"] = 1e6 * second;
    server["bytes_out"] = 2e6 * second;
    server["done"] = 50 * second;
    auto& worker = status_["members"][2];
    worker["done"] = 500 * second;
    worker["compute_s"] = 0.5 * second;
    worker["wait_s"] = 0.25 * second;
    worker["input_wait_s"] = 0.125 * second;
    worker["decode_s"] = 0.0625 * second;
    worker["cpu_s"] = 0.75 * second;
    const Sample sample = Next(100 + second);
    if (second == 0) continue;
    EXPECT_EQ(sample[Series::kArrivedPerS], 1000);
    EXPECT_EQ(sample[Series::kCores], 1.5f);
    EXPECT_EQ(sample[Series::kDeadLettersPerS], 2);
    EXPECT_EQ(sample[Series::kServerBytesPerS], 3e6f) << "of both servers, one of them idle";
    EXPECT_EQ(sample[Series::kCompute], 0.25f) << "the mean of two workers";
    const auto& its = sample.members[2].figures;
    EXPECT_THAT(its, ElementsAre(500, 0.5f, 0.25f, 0.125f, 0.0625f, 0.75f));
    EXPECT_EQ(sample.members[0].figures[0], 3e6f);
    EXPECT_EQ(sample.members[0].figures[1], 50);
  }
  // What stops is at 0 once a window has passed.
  for (int second = 11; second <= 14; ++second) {
    const float rate = Next(100 + second)[Series::kArrivedPerS];
    EXPECT_NEAR(rate, std::max(13 - second, 0) * 1000 / 3.0, 0.1);
  }
}

TEST_F(SamplerTest, AMemberThatCameMeanwhileHasItsRatesSinceThen) {
  Next(1);
  Next(2);
  // Another process with the same index.
  status_["members"][2] = WorkerJson(9, 0);
  status_["members"][2]["done"] = 100;
  EXPECT_THAT(Next(3).members.back().figures[0], IsNan());
  status_["members"][2]["done"] = 150;
  const Sample sample = Next(4);
  EXPECT_EQ(sample.members.back().index, 0u);
  EXPECT_EQ(sample.members.back().figures[0], 50);
}

TEST_F(SamplerTest, ASumThatBeganAnewHasNoRate) {
  status_["stream_end"] = 1000;
  Next(1);
  status_["stream_end"] = 5;
  EXPECT_THAT(Next(2)[Series::kArrivedPerS], IsNan());
}

TEST_F(SamplerTest, SharesOfTimeAreAtMostOne) {
  Next(1);
  status_["members"][2]["wait_s"] = 30.0;
  EXPECT_EQ(Next(2).members[2].figures[2], 1);
}

TEST_F(SamplerTest, StalenessIsThatOfTheLastUpdates) {
  status_["staleness"] = {100, 0, 50};
  Next(1);
  status_["staleness"] = {100, 0, 60, 0, 10};
  EXPECT_EQ(Next(2)[Series::kStaleness], 3);
}

TEST_F(SamplerTest, MembersThatStandByAreNotMeasured) {
  status_["members"][3]["state"] = "standby";
  const Sample sample = Next(1);
  EXPECT_EQ(sample.members.size(), 3u);
  EXPECT_EQ(sample[Series::kWorkers], 1);
}

TEST(MergeTest, FiguresAreMeansOfWhatIsKnown) {
  Sample a = SampleAt(10, 1, 1), b = SampleAt(12, 4, 2);
  a.span_s = 2;
  b.span_s = 1;
  a[Series::kAuc] = 0.5f;
  const Sample merged = Merge(a, b);
  EXPECT_EQ(merged.time_s, 12);
  EXPECT_EQ(merged.span_s, 3);
  EXPECT_EQ(merged[Series::kLoss], 2);
  EXPECT_EQ(merged[Series::kAuc], 0.5f);
  EXPECT_THAT(merged[Series::kMae], IsNan());
  ASSERT_EQ(merged.members.size(), 2u);
  EXPECT_EQ(merged.members[1].figures[0], 1);
}

TEST(ReadStatusTest, WhateverIsNotAsExpectedIsLeftOut) {
  EXPECT_FALSE(ReadStatus("[1, 2]", 0).ok());
  EXPECT_FALSE(ReadStatus("{\"events\": ", 0).ok());
  EXPECT_TRUE(ReadStatus("{}", 7).ok());
  const auto reading = ReadStatus(
      R"({"events": "many", "loss": null, "lag": -5, "term": 1e300, "staleness": [1, "x"], "warnings": [3, "w"],
          "members": [7, {"index": 99999999999, "unreachable": "ps 0", "slow": 1, "host": 3}], "moves": [],
          "departed": {"number": 1}, "drift": 5, "wanted": []})",
      0);
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(reading->events, 0u);
  EXPECT_THAT(reading->loss, IsNan());
  EXPECT_EQ(reading->term, 0u);
  EXPECT_THAT(reading->staleness, ElementsAre(1, 0));
  EXPECT_THAT(reading->warnings, ElementsAre("w"));
  ASSERT_EQ(reading->members.size(), 1u);
  EXPECT_EQ(reading->members[0].index, 4294967295u);
  EXPECT_FALSE(reading->members[0].slow);
}

TEST(ReadStatusTest, MembersAreFoundByNode) {
  json status = StatusJson();
  status["members"] = {WorkerJson(9, 0), WorkerJson(3, 1), ServerJson(5, 0)};
  const auto reading = ReadStatus(status.dump(), 0);
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(reading->Find(3)->index, 1u);
  EXPECT_EQ(reading->Find(5)->role, "ps");
  EXPECT_EQ(reading->Find(4), nullptr);
  EXPECT_EQ(reading->Count("worker"), 2u);
}

TEST(ReadStatusTest, ATrimmedStatusKeepsWhatMattersMost) {
  json status = StatusJson();
  std::string text;
  ASSERT_TRUE(ReadStatus(status.dump(), 0, &text).ok());
  EXPECT_EQ(json::parse(text), status);
  for (uint64_t node = 10; node < 1010; ++node)
    status["members"].push_back(WorkerJson(node, static_cast<uint32_t>(node)));
  status["members"][900]["slow"] = true;
  status["members"][901] = 7;
  for (int i = 0; i < 500; ++i) status["variables"].push_back({{"name", std::to_string(i)}, {"bytes", i}});
  status["warnings"] = std::vector<std::string>(500, "w");
  const auto reading = ReadStatus(status.dump(), 0, &text);
  ASSERT_TRUE(reading.ok());
  const json trimmed = json::parse(text);
  ASSERT_EQ(trimmed["members"].size(), 200u);
  EXPECT_EQ(trimmed["all_members"], 1004);
  EXPECT_EQ(trimmed["members"][0]["role"], "ps");
  EXPECT_TRUE(trimmed["members"][199]["slow"]);
  ASSERT_EQ(trimmed["variables"].size(), 100u);
  EXPECT_EQ(trimmed["variables"][0]["name"], "400");
  EXPECT_EQ(trimmed["warnings"].size(), 20u);
  EXPECT_EQ(reading->members.size(), 1003u);
  EXPECT_EQ(std::ranges::count_if(reading->members, &MemberReading::shown), 200);
  EXPECT_TRUE(reading->Find(1)->shown);
  EXPECT_FALSE(reading->Find(1009)->shown);
}

TEST(SeriesTest, EachHasAName) {
  EXPECT_STREQ(Name(Series::kEventsPerS), "events_per_s");
  EXPECT_STREQ(Name(Series::kDeadLettersPerS), "dead_letters_per_s");
  EXPECT_EQ(FigureNames(MemberSample::Role::kWorker).size(), MemberSample::kFigures);
}

}  // namespace
}  // namespace leat::observe
