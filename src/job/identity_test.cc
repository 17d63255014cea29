// Tests the parts that two jobs must share for one to go on from the other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing.h"
#include "job/job.h"
#include "job/testing.h"

namespace leat::job {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(Identity, WhatWindowsOfTextAreIsPartOfTheIdentity) {
  const auto identity = Parse(kTextJob).Identity();
  for (const auto& [old, by] : {std::pair{"stride: 3", "stride: 2"}, {"part: [0, 0.9]", "part: [0, 0.8]"}})
    EXPECT_NE(Parse(Replaced(kTextJob, old, by)).Identity(), identity) << by;
  EXPECT_EQ(Parse(Replaced(kTextJob, "part: [0.9, 1]", "part: [0.5, 1]")).Identity(), identity);
}

TEST(Identity, TheIdentityIsWhatAResumedJobMustShare) {
  const std::string base =
      Replaced(kFullJob, "evaluate:\n  files: {format: csv, paths: [a.csv, b.csv]}\n", "");
  const auto identity = Parse(base).Identity();
  const auto differs = [&](const char* old, const char* by) {
    const auto other = Parse(Replaced(base, old, by)).Identity();
    EXPECT_EQ(other.size(), identity.size());
    std::string names;
    for (size_t i = 0; i < identity.size(); ++i) {
      EXPECT_EQ(other[i].first, identity[i].first);
      if (other[i].second != identity[i].second) names += identity[i].first + " ";
    }
    return names;
  };
  EXPECT_EQ(differs("seed: 7", "seed: 8"), "seed ");
  EXPECT_EQ(differs("units: 8", "units: 9"), "model ");
  EXPECT_EQ(differs("mean: 3.5", "mean: 3"), "schema ");
  EXPECT_EQ(differs("topic: payments", "topic: others"), "stream.topic ");
  EXPECT_EQ(differs("partitions: 3", "partitions: 4"), "stream.partitions ");
  EXPECT_EQ(differs("type: adam", "type: sgd"), "optimizer.type optimizer.slots ");
  EXPECT_EQ(differs("type: adam", "type: adamw"), "optimizer.type ");
  for (const auto& [old, by] : {std::pair{"name: fraud", "name: other"},
                                {"batch_size: 32", "batch_size: 64"},
                                {"learning_rate: 0.01", "learning_rate: 1"},
                                {"learning_rate: 0.01", "weight_decay: 0.1, clip_norm: 1, beta1: 0.8"},
                                {"learning_rate: 0.01", "schedule: {type: cosine, steps: 900}"},
                                {"workers: 3", "workers: 9"},
                                {"ps: 2", "ps: 3"},
                                {"events: 5000", "events: 9000"},
                                {"keep: 3", "keep: 1"}}) {
    EXPECT_EQ(differs(old, by), "") << by;
  }
}

// Whether versions are steps, how many batches a run has and what a push brings decide whether one strategy
// can go on with what another has left.
TEST(Identity, ACheckpointIsGoneOnWithByAStrategyOfTheSameKind) {
  const auto identity = [](const std::string& strategy) {
    std::string text = Replaced(kFullJob, "strategy: async", "strategy: " + strategy);
    return Parse(Replaced(text, "type: adam", "type: sgd")).Identity();
  };
  const auto sync = identity("sync");
  EXPECT_EQ(identity("{type: ssp, staleness: 5}"), sync);
  EXPECT_EQ(identity("{type: sync, backup: 1}"), sync);
  EXPECT_EQ(identity("{type: sync, lanes: 9}"), sync);
  EXPECT_EQ(identity("allreduce"), sync);
  const auto async = identity("async");
  EXPECT_NE(async, sync) << "versions are not steps";
  EXPECT_EQ(identity("{type: ssp, staleness: -1}"), async);
  EXPECT_EQ(identity("{type: downpour, n_push: 1, n_fetch: 3}"), async);
  EXPECT_NE(identity("{type: downpour, n_push: 2}"), async) << "runs of several batches are open";
  const auto averaging = identity("{type: averaging, period: 2}");
  EXPECT_EQ(identity("{type: averaging, period: 2, lanes: 4}"), averaging);
  EXPECT_NE(identity("{type: averaging, period: 3}"), averaging);
  EXPECT_NE(identity("{type: averaging, period: 2, momentum: 0.5}"), averaging) << "servers keep a velocity";
  EXPECT_NE(identity("{type: averaging, period: 1}"), sync) << "other pushes";
}

// The slots beside an element's value may not change; the rule that updates them may.
TEST(Identity, TheSlotsOfAnOptimizerAreOfTheIdentity) {
  const auto slots = [](const char* optimizer) {
    const std::string text = Replaced(kFullJob, "{type: adam, learning_rate: 0.01}", optimizer);
    for (const auto& [name, value] : Parse(text).Identity()) {
      if (name == "optimizer.slots") return value;
    }
    return std::string("none");
  };
  EXPECT_EQ(slots("{type: sgd}"), "");
  EXPECT_EQ(slots("{type: rmsprop}"), "square");
  EXPECT_EQ(slots("{type: rmsprop, alpha: 0.5}"), "square");
  EXPECT_EQ(slots("{type: rmsprop, momentum: 0.9}"), "square, velocity");
  EXPECT_EQ(slots("{type: rmsprop, momentum: 0.9, centered: true}"), "square, mean, velocity");
}

TEST(Identity, ItsHashIsOfWhatCannotChange) {
  const uint64_t hash = Parse(kFullJob).Hash();
  EXPECT_NE(hash, 0u);
  EXPECT_EQ(Parse(Parse(kFullJob).config.ToYaml()).Hash(), hash) << "as roles are sent it";
  for (const auto& [old, by] : {std::pair("units: 8", "units: 9"),
                                {"seed: 7", "seed: 8"},
                                {"type: adam", "type: sgd"},
                                {"topic: payments", "topic: others"},
                                {"mean: 3.5", "mean: 3"},
                                {"strategy: async", "strategy: sync"}}) {
    EXPECT_NE(Parse(Replaced(kFullJob, old, by)).Hash(), hash) << by;
  }
  for (const auto& [old, by] : {std::pair("rate: 0.01", "rate: 0.5"),
                                {"workers: 3", "workers: 4"},
                                {"strategy: async", "strategy: {type: downpour, n_push: 1}"}}) {
    EXPECT_EQ(Parse(Replaced(kFullJob, old, by)).Hash(), hash) << by;
  }
}

// Earlier versions left jobs in directories that have these values. If one changes, those jobs cannot be
// resumed.
TEST(Identity, OfExistingJobsNeverChanges) {
  EXPECT_THAT(
      Job::FromText(kSmallJob, "job").Identity(),
      ElementsAre(Pair("seed", "1"),
                  Pair("model",
                       "layers: \n  - \n    bias: \n      units: 40\nloss: \n  type: negative_sum\n"
                       "  reduction: sum\n"),
                  Pair("schema",
                       "format: json\nfields: \n  amount: \n    type: number\n  fraud: \n"
                       "    type: number\n    role: label\n"),
                  Pair("schema.delimiter", "','"), Pair("stream.topic", "events"),
                  Pair("stream.partitions", "2"), Pair("stream.windows", ""), Pair("optimizer.type", "sgd"),
                  Pair("optimizer.slots", ""), Pair("strategy.stepped", "no"),
                  Pair("strategy.averaging", "no"), Pair("strategy.run", "1")));
  const auto identity = Job::FromText(kTextJob, "job").Identity();
  EXPECT_THAT(identity[4], Pair("stream.topic", ""));
  EXPECT_THAT(identity[5], Pair("stream.partitions", "1"));
  EXPECT_THAT(identity[6], Pair("stream.windows", "6 3 0 0.90000000000000002"));
}

TEST(Identity, HashesOfExistingJobsNeverChange) {
  EXPECT_EQ(Job::FromText(kFullJob, "job").Hash(), 18435638123601074706u);
  EXPECT_EQ(Job::FromText(kSmallJob, "job").Hash(), 1910164526577840801u);
  EXPECT_EQ(Job::FromText(kTextJob, "job").Hash(), 15449590007675465968u);
  const std::string averaging = Replaced(Replaced(kFullJob, "type: adam", "type: sgd"), "strategy: async",
                                         "strategy: {type: averaging, period: 2, momentum: 0.5}");
  EXPECT_EQ(Job::FromText(averaging, "job").Hash(), 11334142032582189427u);
  const TempDir directory;
  for (const char* name : {"a.csv", "b.csv", "c.csv"}) directory.Write(name, "x;y\n1.5;2\n");
  const Job csv = Job::Load({.text = kCsvJob}, {.data = directory.path()});
  EXPECT_EQ(csv.Hash(), 5668144285668270414u) << "a delimiter that was found";
}

TEST(Identity, OfTheResolvedTextIsThatOfTheFile) {
  const Job job = Job::Load({.text = kFullJob}, {.data = "/data",
                                                 .directory = "/jobs/j",
                                                 .workers = 5,
                                                 .servers = 2,
                                                 .rate = 1234567.25,
                                                 .events = 777});
  EXPECT_EQ(job.config.ToYaml(), Config::Parse(kFullJob, "job").ToYaml() +
                                     "resolved: \n  directory: \"/jobs/j\"\n  data: \"/data\"\n  workers: 5\n"
                                     "  ps: 2\n  rate: 1234567.25\n  events: 777\n");
  EXPECT_EQ(job.Hash(), Job::FromText(kFullJob, "job").Hash());
  EXPECT_EQ(Job::FromText(job.config.ToYaml(), "job").Hash(), job.Hash());
}

}  // namespace
}  // namespace leat::job
