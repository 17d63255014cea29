#include "protocol/strategy.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace leat::protocol {
namespace {

StrategyConfig Read(const std::string& text, uint32_t workers = 4) {
  return StrategyFromConfig(Config::Parse("name: x\nstrategy: " + text, "job.yaml").At("strategy"), workers);
}

std::string Mistake(const std::string& text, uint32_t workers = 4) {
  try {
    Read(text, workers);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

// The message begins with the location and contains each of these.
void ExpectRefused(const std::string& text, uint32_t workers, std::initializer_list<const char*> says) {
  const std::string message = Mistake(text, workers);
  EXPECT_EQ(message.find("job.yaml:2: "), 0u) << text << ": " << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  for (const char* part : says) EXPECT_NE(message.find(part), std::string::npos) << text << ": " << message;
}

TEST(Strategy, AWordIsEnough) {
  for (const auto& [word, kind] : {std::pair{"async", StrategyKind::kAsync},
                                   {"sync", StrategyKind::kSync},
                                   {"ssp", StrategyKind::kSsp},
                                   {"downpour", StrategyKind::kDownpour},
                                   {"averaging", StrategyKind::kAveraging},
                                   {"allreduce", StrategyKind::kAllReduce}}) {
    const auto strategy = Read(word);
    EXPECT_EQ(strategy, Defaults(kind, 4)) << word;
    EXPECT_EQ(strategy, Read("{type: " + std::string(word) + "}"));
    EXPECT_EQ(strategy.lanes, strategy.stepped() ? 4u : 1u) << word;
    EXPECT_EQ(Name(strategy.kind), word);
    EXPECT_TRUE(Check(strategy, 4).ok());
  }
  EXPECT_EQ(Mistake("snyc").find("job.yaml:2: unknown strategy 'snyc'; did you mean 'sync'?"), 0u)
      << Mistake("snyc");
  EXPECT_NE(Mistake("{}"), "");
  EXPECT_NE(Mistake("[sync]"), "");
}

TEST(Strategy, EverySettingIsRead) {
  EXPECT_TRUE(Read("{type: async, staleness_aware: true}").staleness_aware);
  EXPECT_EQ(Read("{type: sync, lanes: 16}").total_lanes(), 16u);
  const auto ssp = Read("{type: ssp, staleness: 7}");
  EXPECT_TRUE(ssp.stepped());
  EXPECT_EQ(ssp.ahead(), 7u);
  const auto async = Read("{type: ssp, staleness: -1, staleness_aware: true}");
  EXPECT_FALSE(async.stepped());
  EXPECT_EQ(async.ahead(), 0u);
  const auto downpour = Read("{type: downpour, n_push: 5, n_fetch: 3, staleness_aware: true}");
  EXPECT_EQ(downpour.run(), 5u);
  EXPECT_EQ(downpour.n_fetch, 3u);
  EXPECT_FALSE(downpour.stepped());
  const auto averaging = Read("{type: averaging, period: 10, momentum: 0.9}");
  EXPECT_EQ(averaging.run(), 10u);
  EXPECT_FLOAT_EQ(averaging.momentum, 0.9f);
  const auto ring = Read("{type: allreduce, deterministic: true, transport: mpi, lanes: 8}");
  EXPECT_TRUE(ring.deterministic && ring.mpi && ring.stepped() && !ring.on_servers());
  EXPECT_EQ(ring.lanes, 8u);
  EXPECT_FALSE(Read("{type: allreduce, transport: auto}").mpi);
}

TEST(Strategy, TheOldNameOfLanesIsAccepted) {
  EXPECT_EQ(Read("{type: sync, virtual_workers: 16}"), Read("{type: sync, lanes: 16}"));
  EXPECT_EQ(Read("{type: sync, virtual_workers: 4, backup: 1}", 5),
            Read("{type: sync, lanes: 4, backup: 1}", 5));
  ExpectRefused("{type: sync, virtual_workers: 0}", 1, {"lanes is 0"});
  ExpectRefused(
      "{type: downpour, virtual_workers: 4}", 4,
      {"'virtual_workers' is not a setting of the strategy downpour", "to sync, ssp, averaging, allreduce"});
  ExpectRefused("{type: ssp, staleness: -1, virtual_workers: 4}", 4, {"no steps"});
  EXPECT_EQ(Mistake("\n  type: sync\n  lanes: 4\n  virtual_workers: 4"),
            "job.yaml:5: 'virtual_workers' is the old name of 'lanes', which is also set (job.yaml:4)");
  EXPECT_EQ(Mistake("\n  type: sync\n\n  virtual_workers: x"),
            "job.yaml:5: lanes is 'x'; must be a 64-bit whole number");
}

TEST(Strategy, OldNamesAreNoted) {
  const auto notes = [](const std::string& text) {
    return OldNames(Config::Parse("strategy: " + text, "job.yaml").At("strategy"));
  };
  EXPECT_EQ(notes("\n  type: sync\n  virtual_workers: 4"),
            std::vector<std::string>{
                "job.yaml:3: 'virtual_workers' is called 'lanes' now; the old name still works"});
  EXPECT_TRUE(notes("{type: sync, lanes: 4}").empty());
  EXPECT_TRUE(notes("sync").empty());
}

TEST(Strategy, BackupsAreOfTheWorkersUnlessItIsSaidOtherwise) {
  const auto of_four = Read("{type: sync, backup: 1}");
  EXPECT_EQ(of_four.lanes, 3u);
  EXPECT_EQ(of_four.total_lanes(), 4u);
  const auto more = Read("{type: sync, lanes: 4, backup: 1}", 5);
  EXPECT_EQ(more.lanes, 4u);
  EXPECT_EQ(more.total_lanes(), 5u);
}

TEST(Strategy, LanesMayFollowTheWorkers) {
  using Scale = StrategyConfig::RateScale;
  for (const char* type : {"sync", "ssp", "averaging", "allreduce"}) {
    const auto strategy = Read("{type: " + std::string(type) + ", lanes: auto, scale_learning_rate: sqrt}");
    EXPECT_TRUE(strategy.auto_lanes);
    EXPECT_EQ(strategy.lanes, 4u) << "to begin with";
    EXPECT_EQ(strategy.rate_scale, Scale::kSqrt);
  }
  EXPECT_EQ(Read("{type: sync, lanes: auto}").rate_scale, Scale::kNone);
  EXPECT_EQ(Read("{type: sync, lanes: auto, scale_learning_rate: linear}").rate_scale, Scale::kLinear);
  EXPECT_EQ(Read("{type: sync, lanes: auto, backup: 1}").lanes, 3u);
  EXPECT_FALSE(Read("{type: sync, lanes: 4, scale_learning_rate: none}").auto_lanes);
  ExpectRefused("{type: allreduce, lanes: auto, deterministic: true}", 4,
                {"lanes: auto", "deterministic: true"});
  ExpectRefused("{type: allreduce, lanes: auto, transport: mpi}", 4, {"lanes: auto", "MPI"});
  ExpectRefused("{type: ssp, staleness: -1, lanes: auto}", 4, {"no steps"});
  ExpectRefused("{type: sync, lanes: auto, scale_learning_rate: cubic}", 4, {"scale_learning_rate 'cubic'"});
  ExpectRefused("{type: sync, lanes: automatic}", 4, {"lanes is 'automatic'"});
  ExpectRefused("{type: async, scale_learning_rate: linear}", 4, {"to sync, ssp, averaging, allreduce"});
  EXPECT_EQ(Mistake("{type: sync, scale_learning_rate: linear}"),
            "job.yaml:2: scale_learning_rate is 'linear', but the number of lanes is fixed; it goes with "
            "lanes: auto");
}

TEST(Strategy, AResumedJobKeepsItsLanesForAnyNumberOfWorkers) {
  const auto resumed = [](const std::string& text, uint32_t workers) {
    return StrategyFromConfig(Config::Parse("strategy: " + text, "job.yaml").At("strategy"), workers, 4);
  };
  for (const uint32_t workers : {2u, 4u, 8u}) {
    EXPECT_EQ(resumed("sync", workers).lanes, 4u) << workers;
    EXPECT_EQ(resumed("{type: sync, backup: 1}", workers).total_lanes(), 5u) << workers;
    EXPECT_EQ(resumed("{type: sync, lanes: 6}", workers).lanes, 6u) << "as is written";
    EXPECT_EQ(resumed("async", workers), Defaults(StrategyKind::kAsync, workers));
  }
}

TEST(Strategy, ASettingOfAnotherStrategyIsNamedWithItsStrategy) {
  ExpectRefused("{type: sync, staleness: 3}", 4,
                {"'staleness' is not a setting of the strategy sync; it belongs to ssp"});
  ExpectRefused("{type: async, backup: 1}", 4, {"'backup'", "async; it belongs to sync"});
  ExpectRefused("{type: allreduce, backup: 1}", 4, {"'backup'", "to sync"});
  ExpectRefused("{type: downpour, lanes: 4}", 4, {"to sync, ssp, averaging, allreduce"});
  ExpectRefused("{type: sync, stalenes: 3}", 4, {"stalenes"});
  ExpectRefused("{type: ssp, stalenes: 3}", 4, {"did you mean 'staleness'"});
}

TEST(Strategy, WhatMakesNoSenseIsRefusedWithTheReason) {
  ExpectRefused("{type: sync, backup: 2}", 2,
                {"backup is 2 with 2 workers", "backup must be less than the number of workers"});
  ExpectRefused("{type: sync, backup: 1}", 1, {"backup is 1 with 1 worker:"});
  ExpectRefused("{type: sync, lanes: 3}", 4, {"lanes is 3, fewer than the 4 workers"});
  ExpectRefused("{type: sync, lanes: 2, backup: 1}", 4, {"backup 1", "fewer than the 4 workers"});
  ExpectRefused("{type: sync, lanes: 0}", 1, {"lanes is 0"});
  ExpectRefused("{type: sync, lanes: 70000}", 4, {"lanes is 70000"});
  ExpectRefused("{type: sync, lanes: 65536, backup: 1}", 4, {"at most 65536 batches"});
  ExpectRefused("{type: allreduce, lanes: 5000}", 4, {"5000", "allreduce", "at most 4096"});
  ExpectRefused("allreduce", 1, {"1 worker", "it needs 2 or more"});
  ExpectRefused("{type: ssp, staleness: -2}", 4, {"staleness is -2"});
  ExpectRefused("{type: ssp, staleness: 1001}", 4, {"staleness is 1001"});
  ExpectRefused("{type: ssp, staleness: 2, staleness_aware: true}", 4, {"staleness_aware", "staleness: -1"});
  ExpectRefused("{type: ssp, staleness: -1, lanes: 4}", 4, {"lanes", "no steps"});
  ExpectRefused("{type: averaging, period: 0}", 4, {"period is 0"});
  ExpectRefused("{type: averaging, momentum: 1}", 4, {"momentum is 1", "less than 1"});
  ExpectRefused("{type: averaging, momentum: -0.5}", 4, {"momentum is -0.5"});
  ExpectRefused("{type: averaging, momentum: nan}", 4, {"momentum"});
  ExpectRefused("{type: downpour, n_push: 0}", 4, {"n_push is 0"});
  ExpectRefused("{type: downpour, n_fetch: 0}", 4, {"n_fetch is 0"});
  ExpectRefused("{type: allreduce, transport: rdma}", 4, {"transport 'rdma'"});
}

// Strategies can be set without a job file.
TEST(Strategy, CheckFindsTheSameInSettingsThatWereMadeByHand) {
  for (const auto change : std::initializer_list<void (*)(StrategyConfig*)>{
           [](StrategyConfig* s) { s->lanes = 0; }, [](StrategyConfig* s) { s->lanes = 3; },
           [](StrategyConfig* s) { s->backup = 4; }, [](StrategyConfig* s) { s->staleness = 1; },
           [](StrategyConfig* s) { s->staleness = -2; }, [](StrategyConfig* s) { s->staleness_aware = true; },
           [](StrategyConfig* s) { s->n_push = 0; }, [](StrategyConfig* s) { s->n_fetch = 0; },
           [](StrategyConfig* s) { s->period = 0; }, [](StrategyConfig* s) { s->momentum = 1; },
           [](StrategyConfig* s) {
             s->lanes = ~0u;
             s->backup = 3;
           }}) {
    auto strategy = Defaults(StrategyKind::kSync, 4);
    EXPECT_TRUE(Check(strategy, 4).ok());
    change(&strategy);
    const Status refused = Check(strategy, 4);
    EXPECT_EQ(refused.code(), Code::kInvalidArgument);
    EXPECT_EQ(refused.message().find('\n'), std::string::npos);
  }
}

// Every strategy except all-reduce can be compared with a single worker.
TEST(Strategy, OneWorkerAloneTrainsWithAllButTheRing) {
  for (const char* word : {"async", "sync", "ssp", "downpour", "averaging"})
    EXPECT_EQ(Mistake(word, 1), "") << word;
  EXPECT_EQ(Mistake("{type: sync, lanes: 4}", 1), "");
}

}  // namespace
}  // namespace leat::protocol
