#include "lab/study/grid/study.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "base/testing.h"
#include "lab/study/grid/report.h"

namespace leat::study {
namespace {

constexpr const char* kJob =
    "name: tiny\nstream: {topic: t}\nschema: {format: json, fields: {x: {type: number}}}\n"
    "strategy: async\ncluster: {workers: 2, ps: 2, max_ps: 2}\ntrain: {batch_size: 64}\n";

class StudyTest : public ::testing::Test {
 protected:
  StudyTest() { folder_.Write("job.yaml", kJob); }

  StudyFile Parse(const std::string& text) const {
    return ParseStudy(Config::Parse("job: job.yaml\n" + text, "s.yaml"), folder_.path());
  }
  void Refused(const std::string& text, const std::string& what) const {
    try {
      Parse(text);
      FAIL() << what;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
      EXPECT_TRUE(std::string(e.what()).starts_with("s.yaml:")) << e.what();
    }
  }

  TempDir folder_;
};

TEST_F(StudyTest, AGridHasAPointForEachCombination) {
  const StudyFile study = Parse(
      "grid: {workers: [4, 1, 2], ps: [1, 2], batch: [50, 100], strategy: [async, allreduce], link: [1gbit, "
      "100mbit]}");
  const auto points = PointsOf(study);
  // 3 × 2 × 2 × 2 on servers; without servers 2 × 2 × 2, since one worker has nobody to reduce with.
  EXPECT_EQ(points.size(), 24u + 8u);
  EXPECT_EQ(points[0].workers, 1u);
  EXPECT_EQ(points[1].workers, 2u);
  EXPECT_EQ(KeyOf(study, points[0]), "w1-ps1-b50-async-greedy-1gbit");
  EXPECT_EQ(KeyOf(study, points.back()), "w4-b100-allreduce-100mbit");
}

TEST_F(StudyTest, WhatIsNotInTheGridIsAsInTheJob) {
  const StudyFile study = Parse("grid: {workers: [3]}");
  const auto points = PointsOf(study);
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(KeyOf(study, points[0]), "w3-ps2-b64-async-greedy-unlimited");
}

TEST_F(StudyTest, TheJobOfAPointHasItsSettings) {
  const StudyFile study = Parse(
      "grid: {workers: [8], ps: [4], batch: [10], strategy: [{type: ssp, staleness: 2}, {type: ssp, "
      "staleness: 5}, "
      "allreduce], placement: [partitioned]}\ntarget: {accuracy: 0.9, window: 2000}");
  const auto points = PointsOf(study);
  const Config job = Config::Parse(JobOf(study, points[1]), "job");
  EXPECT_EQ(job.At("cluster").At("workers").Integer(), 8);
  EXPECT_EQ(job.At("cluster").At("ps").Integer(), 4);
  EXPECT_EQ(job.At("cluster").At("max_ps").Integer(), 4);
  EXPECT_EQ(job.At("cluster").At("placement").String(), "partitioned");
  EXPECT_EQ(job.At("train").At("batch_size").Integer(), 10);
  EXPECT_EQ(job.At("strategy").At("staleness").Integer(), 5);
  EXPECT_EQ(job.At("metrics").At("window").Integer(), 2000);
  EXPECT_EQ(StrategyText(study, 1), "ssp staleness 5");
  const Config reduced = Config::Parse(JobOf(study, points[2]), "job");
  EXPECT_FALSE(reduced.At("cluster").Has("ps"));
  EXPECT_FALSE(reduced.At("cluster").Has("placement"));
}

TEST_F(StudyTest, TheImpossibleIsRefused) {
  Refused("grid: {workers: [0]}", "workers is 0");
  Refused("grid: {workers: []}", "empty");
  Refused("grid: {colour: [red]}", "colour");
  Refused("grid: {strategy: [asinc]}", "asinc");
  Refused("grid: {link: [fast]}", "fast");
  Refused("grid: {workers: [1]}\ntarget: {window: 2000}", "accuracy");
  Refused("grid: {workers: [1]}\ntarget: {accuracy: 0.9, loss: 1}", "one figure");
  Refused("grid: {workers: [1]}\nsteps: 10\nevents: 10", "exclude");
  Refused("grid: {workers: [1]}\ngain: 2", "gain is 2");
  Refused("grid: {workers: [1]}\nlatency: soon", "soon");
}

TEST_F(StudyTest, AHashChangesWithWhatAResultDependsOn) {
  const StudyFile study = Parse("grid: {workers: [1, 2]}\nsteps: 10");
  const auto points = PointsOf(study);
  const uint64_t hash = HashOf(study, points[0], "real");
  EXPECT_NE(hash, HashOf(study, points[1], "real"));
  EXPECT_NE(hash, HashOf(study, points[0], "simulated"));
  const StudyFile wider = Parse("grid: {workers: [1, 2, 4]}\nsteps: 10\ngain: 0.7");
  EXPECT_EQ(hash, HashOf(wider, PointsOf(wider)[0], "real"));
  const StudyFile longer = Parse("grid: {workers: [1, 2]}\nsteps: 20");
  EXPECT_NE(hash, HashOf(longer, PointsOf(longer)[0], "real"));
}

// ---- plans

TEST_F(StudyTest, PointsAreRealWhereThereAreCores) {
  const StudyFile study = Parse("grid: {workers: [1, 2, 8], ps: [1], link: [unlimited, 1gbit]}");
  PlanOptions options{.cores = 4, .memory_bytes = 1e11};
  const JobFacts facts{.events = 1e6, .batch_s = {{64, 0.001}}, .model_bytes = 1e6};
  const auto modes = [&] {
    std::string text;
    const auto plan = *MakePlan(study, options, facts);
    for (const auto& planned : plan) text += planned.mode == Mode::kReal ? "r" : "s";
    return text;
  };
  EXPECT_EQ(modes(), "rrssss");
  options.on_hosts = true;
  EXPECT_EQ(modes(), "rrsrrs");
  options.oversubscribe = true;
  EXPECT_EQ(modes(), "rrrrrr");
  options.simulated = true;
  EXPECT_EQ(modes(), "ssssss");
}

TEST_F(StudyTest, RealPointsNeedMemory) {
  const StudyFile study = Parse("grid: {workers: [2], ps: [1]}");
  const JobFacts facts{.events = 1e6, .batch_s = {{64, 0.001}}, .model_bytes = 1e9};
  const auto plan = MakePlan(study, {.cores = 4, .memory_bytes = 8e9}, facts);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find("memory"), std::string::npos);
  EXPECT_TRUE(MakePlan(study, {.simulated = true, .cores = 4, .memory_bytes = 8e9}, facts).ok());
}

TEST_F(StudyTest, TimeLeftFollowsWhatPointsTook) {
  const StudyFile study = Parse("grid: {workers: [1, 2], ps: [1]}");
  auto plan = *MakePlan(study, {.cores = 4, .memory_bytes = 8e9}, {.events = 64e6, .batch_s = {{64, 0.001}}});
  EXPECT_NEAR(plan[0].seconds, 1003, 1);
  EXPECT_NEAR(plan[1].seconds, 503, 1);
  plan[0].done = true;
  EXPECT_NEAR(SecondsLeft(plan, plan[0].seconds, 2 * plan[0].seconds, 4), 2 * plan[1].seconds, 1);
}

// ---- reports

std::vector<PointResult> Results(const StudyFile& study, const std::vector<double>& speeds) {
  std::vector<PointResult> results;
  for (const GridPoint& point : PointsOf(study)) {
    PointResult& r = results.emplace_back();
    r.point = point;
    r.events = 1e6;
    r.events_per_s = speeds[results.size() - 1];
    r.seconds = 1e6 / r.events_per_s;
    r.usage = {.server_link = 0.9, .compute = 0.3, .wait = 0.7};
    r.server_bytes = {1e6, 2e6};
    r.cost = CostOf(study, r);
  }
  return results;
}

TEST_F(StudyTest, AReportNamesTheSweetSpotAndTheLimit) {
  const StudyFile study = Parse("grid: {workers: [1, 2, 4], ps: [1]}");
  auto results = Results(study, {100, 190, 200});
  const std::string text = RenderText(study, results);
  EXPECT_NE(text.find("sweet spot 2 workers"), std::string::npos) << text;
  EXPECT_NE(text.find("limit: server link"), std::string::npos) << text;
  EXPECT_NE(text.find("best: 4 workers"), std::string::npos) << text;
  results[1].error = "<b>it failed</b>";
  const std::string html = RenderHtml(study, results);
  EXPECT_NE(html.find("&lt;b&gt;it failed"), std::string::npos);
  EXPECT_EQ(html.find("<b>it failed"), std::string::npos);
  EXPECT_EQ(html.find("http"), std::string::npos);  // it needs no other file
  EXPECT_NE(RenderText(study, results).find("failed: w2-"), std::string::npos);
}

TEST_F(StudyTest, ATargetThatIsNeverReachedIsNoNumber) {
  const StudyFile study = Parse("grid: {workers: [1, 2], ps: [1]}\ntarget: {accuracy: 0.99}");
  const auto results = Results(study, {100, 190});
  EXPECT_EQ(Winner(study, results), nullptr);
  EXPECT_NE(RenderText(study, results).find("was not reached by any point"), std::string::npos);
  EXPECT_NE(RenderHtml(study, results).find("not reached"), std::string::npos);
  EXPECT_NE(RenderJson(study, results).find("\"target_s\": null"), std::string::npos);
}

TEST_F(StudyTest, AResultIsTheSameAfterAFile) {
  const StudyFile study = Parse("grid: {workers: [2], ps: [1]}\ntarget: {accuracy: 0.99}");
  PointResult result = Results(study, {100})[0];
  result.target_s = 3;
  result.target_events = 300;
  result.accuracy = 0.991;
  const std::string text = ToJson(study, result).dump();
  const auto read = ParseResult(text, result.point);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(ToJson(study, *read).dump(), text);
  EXPECT_FALSE(ParseResult("{}", result.point).ok());
  EXPECT_FALSE(ParseResult("{\"mode\": \"real\", \"seconds\": -1}", result.point).ok());
}

TEST(Usage, ComesFromTheSummary) {
  const auto summary =
      report::StatusFromJson(R"({"events": 1000, "training_s": 10, "staleness_mean": 3.5, "members": [
      {"role": "ps", "bytes_in": 900, "bytes_out": 100, "cpu_s": 2},
      {"role": "ps", "bytes_in": 10, "bytes_out": 10, "cpu_s": 1},
      {"role": "worker", "steps": 50, "step_ms": 100, "wait_s": 4},
      {"role": "worker", "steps": 50, "step_ms": 100, "wait_s": 3},
      {"role": "worker", "steps": 20, "step_ms": 300, "wait_s": 4}]})");
  PointResult result;
  Fill(*summary, 100, 0, true, &result);
  EXPECT_DOUBLE_EQ(result.events_per_s, 100);
  EXPECT_DOUBLE_EQ(result.usage.server_link, 0.9);
  EXPECT_DOUBLE_EQ(result.usage.server_cpu, 0.2);
  EXPECT_NEAR(result.usage.compute, 16.0 / 30, 1e-9);
  EXPECT_NEAR(result.usage.wait, 11.0 / 30, 1e-9);
  EXPECT_NEAR(result.usage.slowest, 3, 1e-9);
  EXPECT_EQ(result.server_bytes, (std::vector<double>{1000, 20}));
  Fill({}, 100, 0, true, &result);  // nothing to take from it
}

TEST(Sparklines, AreRelativeToTheLargest) {
  EXPECT_EQ(Sparkline({1, 4, 8}), "▁▄█");
  EXPECT_EQ(Sparkline({}), "");
  EXPECT_EQ(Sparkline({0, 0}), "▁▁");
}

}  // namespace
}  // namespace leat::study
