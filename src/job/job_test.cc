#include "job/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "job/testing.h"

namespace leat::job {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Job, AveragingLeavesTheOptimizerToTheWorkers) {
  const std::string job =
      Replaced(Replaced(kFullJob, "strategy: async", "strategy: {type: averaging, period: 2}"),
               "{type: adam, learning_rate: 0.01}",
               "{type: sgd, learning_rate: 0.5, weight_decay: 0.1, clip_norm: 1, "
               "schedule: {type: step, every: 5}}");
  auto expected = optim::Defaults(optim::Kind::kSgd);
  expected.learning_rate = 1;
  auto rule = Parse(job).ServerOptimizer();
  rule.momentum = expected.momentum;  // sgd ignores it
  EXPECT_EQ(rule, expected) << "neither schedule nor decay nor clipping";
  EXPECT_EQ(Parse(job).optimizer.learning_rate, 0.5f);

  rule = Parse(Replaced(job, "period: 2}", "period: 2, momentum: 0.7}")).ServerOptimizer();
  EXPECT_EQ(rule.kind, optim::Kind::kMomentum);
  EXPECT_EQ(rule.learning_rate, 1);
  EXPECT_EQ(rule.momentum, 0.7f);
  for (const char* other : {"momentum", "adam", "lamb"}) {
    EXPECT_THAT(MistakeIn(Replaced(job, "type: sgd", std::string("type: ") + other)),
                AllOf(StartsWith("job.yaml:23: "), HasSubstr("averaging goes with sgd"), HasSubstr(other)));
  }
}

TEST(Job, LambHasWholeVariables) {
  const auto table = Parse(Replaced(kFullJob, "type: adam", "type: lamb")).Slices();
  EXPECT_EQ(table.slices.size(), table.variables.size());
  EXPECT_GT(Parse(kFullJob).Slices().slices.size(), table.variables.size());
}

TEST(Job, ARunningScaleIsOneSliceOfTheModelInEveryStrategy) {
  const std::string job = Replaced(kFullJob, "std: 2}", "std: 2, scale: running}");
  for (const std::string strategy : {"async", "sync", "{type: sync, backup: 1}", "ssp", "downpour",
                                     "{type: averaging, period: 2}", "allreduce"}) {
    std::string yaml = Replaced(job, "strategy: async", "strategy: " + strategy);
    if (strategy.find("averaging") != strategy.npos) yaml = Replaced(yaml, "type: adam", "type: sgd");
    const Job parsed = Parse(yaml);
    const auto table = parsed.Slices();
    EXPECT_EQ(table.variables[0].name, "moments");
    EXPECT_EQ(table.variables[0].role, optim::VariableRole::kMoments);
    EXPECT_EQ(table.slices[0], (protocol::SliceSpec{0, 0, 6})) << strategy;
    EXPECT_EQ(table.slices[1].variable, 1u);
    EXPECT_EQ(parsed.model->inputs(), 5u);
  }
  EXPECT_EQ(Parse(kFullJob).Slices().variables[0].role, optim::VariableRole::kTrained);
  EXPECT_NE(Parse(job).Hash(), Parse(kFullJob).Hash()) << "the other's checkpoints have no statistics";
  EXPECT_EQ(Parse(job).Cuts().hash, Parse(kFullJob).Cuts().hash) << "rows are the same";
}

TEST(Job, ARunningScaleMakesNoIds) {
  const std::string job =
      "stream: {topic: t}\n"
      "schema: {format: json, fields: {x: {type: number, scale: running}, y: {type: number, role: label}}}\n"
      "model: {layers: [embedding: {size: 9, units: 2}, flatten, dense: {units: 1}], loss: squared_error}\n"
      "optimizer: {type: sgd}\n";
  EXPECT_THAT(MistakeIn(job), AllOf(StartsWith("job.yaml:2: "), HasSubstr("takes ids below 9")));
}

TEST(Job, TheCutHashCoversWhatAnIndexMeans) {
  const uint64_t hash = Parse(kFullJob).Cuts().hash;
  for (const auto& [old, by] : {std::pair{"batch_size: 32", "batch_size: 33"},
                                {"split_batches: 4", "split_batches: 5"},
                                {"shuffle: false", "shuffle: true"},
                                {"mean: 3.5", "mean: 3.6"}}) {
    EXPECT_NE(Parse(Replaced(kFullJob, old, by)).Cuts().hash, hash) << by;
  }
  for (const auto& [old, by] : {std::pair{"workers: 3", "workers: 4"}, {"units: 8", "units: 9"}}) {
    EXPECT_EQ(Parse(Replaced(kFullJob, old, by)).Cuts().hash, hash) << by;
  }
}

}  // namespace
}  // namespace leat::job
