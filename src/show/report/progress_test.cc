#include "show/report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/rng.h"

namespace leat::report {
namespace {

using ProgressJson = nlohmann::json;
using protocol::CoordinatorStatus;
using protocol::Role;
using ::testing::Contains;
using ::testing::UnorderedElementsAre;

constexpr NodeId kWorker(1), kOther(2), kServer(3), kBots(4);

std::string JsonOf(const Progress& progress, Time now, const CoordinatorStatus& status, double cpu_seconds) {
  return report::ToJson(progress.Show(now, status, cpu_seconds));
}

class ProgressTest : public ::testing::Test {
 protected:
  void Make(nn::Task task = nn::Task::kBinary, bool truth = true, uint64_t window = 1000,
            uint32_t labels = 1) {
    progress_.emplace(Progress::Options{.job = "fraud",
                                        .task = task,
                                        .labels = labels,
                                        .truth = truth,
                                        .window = window,
                                        .directory = "/jobs/fraud"});
    Join(kWorker, Role::kWorker);
    Join(kOther, Role::kWorker);
    Join(kServer, Role::kServer);
    Join(kBots, Role::kBots);
  }
  void Join(NodeId node, Role role) {
    protocol::JoinRequest request;
    request.role = role;
    request.host = "host" + ToString(node);
    request.pid = 100 + static_cast<int64_t>(node.value);
    progress_->OnJoin(now_, node, request);
  }
  // As the coordinator is while the job runs, with `events` in every slice.
  CoordinatorStatus Running(uint64_t events) {
    CoordinatorStatus status;
    status.phase = CoordinatorStatus::Phase::kRunning;
    status.events = events;
    status.view.generation = Generation(5);
    status.view.members = {{kServer, Role::kServer, 0, "there"}, {kWorker, Role::kWorker, 0, ""}};
    status.view.slices = {{kServer, Incarnation(1), true}};
    return status;
  }
  void Status(uint64_t events) { progress_->OnStatus(now_, Running(events)); }
  ProgressJson Show(uint64_t events = 0) {
    return ProgressJson::parse(JsonOf(*progress_, now_, Running(events), 0));
  }

  // A worker's sums, which the tests add to.
  struct Sums {
    protocol::WorkerProgress progress;
    metrics::AucCounts scores, truths;
    // A batch with a loss of its own for each event.
    void Train(uint64_t events, double loss, uint64_t correct) {
      ++progress.steps;
      progress.events += events;
      progress.loss_sum += loss * static_cast<double>(events);
      progress.correct += correct;
    }
    void Score(float score, float truth, bool positive) {
      scores.Add(score, positive);
      truths.Add(truth, positive);
    }
  };
  void Report(NodeId node, Sums& sums) {
    sums.progress.scores = sums.scores.Encode();
    sums.progress.true_scores = sums.truths.Encode();
    progress_->OnWorker(now_, node, sums.progress);
  }
  void Pass(double seconds) { now_ += FromSeconds(seconds); }

  Time now_ = std::chrono::seconds(1000);
  std::optional<Progress> progress_;
};

TEST_F(ProgressTest, EveryEntryIsThereBeforeAnybodyHasJoined) {
  Progress progress({.job = "j", .task = nn::Task::kBinary, .truth = true, .directory = "/d"});
  const ProgressJson json = ProgressJson::parse(JsonOf(progress, now_, CoordinatorStatus(), 0.5));
  for (const char* key : {"job",
                          "phase",
                          "events",
                          "events_per_s",
                          "events_per_s_now",
                          "steps",
                          "loss",
                          "accuracy",
                          "auc",
                          "auc_possible",
                          "window",
                          "strategy",
                          "staleness_mean",
                          "staleness_p99",
                          "staleness",
                          "step",
                          "late",
                          "skipped",
                          "warnings",
                          "lag",
                          "stream_end",
                          "published",
                          "dead_letters",
                          "lost_to_retention",
                          "rejected_batches",
                          "duplicates",
                          "conflicts",
                          "leases",
                          "regranted_leases",
                          "overdue_leases",
                          "evictions",
                          "generation",
                          "members",
                          "wall_s",
                          "training_s",
                          "aggregated_compute_s",
                          "checkpoint",
                          "directory"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["phase"], "waiting for servers");
  EXPECT_FALSE(json.contains("waiting_for"));
  EXPECT_FALSE(json.contains("checkpoint_failure"));
  EXPECT_FALSE(json.contains("saving"));
  CoordinatorStatus full;
  full.waiting_for = "the journal";
  full.checkpoint_failure = "no space";
  full.saving = {.id = 7, .waiting_for = "its manifest", .limit = std::chrono::seconds(60), .bytes = 5};
  const ProgressJson waiting = ProgressJson::parse(JsonOf(progress, now_, full, 0.5));
  EXPECT_EQ(waiting["waiting_for"], "the journal");
  EXPECT_EQ(waiting["checkpoint_failure"], "no space");
  EXPECT_EQ(waiting["saving"],
            ProgressJson::parse(R"({"checkpoint":7,"bytes":5,"waiting_for":"its manifest","limit_s":60.0})"));
  CoordinatorStatus without_servers;
  without_servers.phase = CoordinatorStatus::Phase::kWaitingForWorkers;
  EXPECT_EQ(ProgressJson::parse(JsonOf(progress, now_, without_servers, 0))["phase"], "waiting for workers");
  for (const char* key : {"loss", "accuracy", "auc", "auc_possible", "checkpoint"})
    EXPECT_TRUE(json[key].is_null()) << key;
  for (const char* key : {"events", "events_per_s", "steps", "wall_s", "training_s", "published"})
    EXPECT_EQ(json[key], 0) << key;
  EXPECT_EQ(json["aggregated_compute_s"], 0.5);
  EXPECT_EQ(json["members"], ProgressJson::array());
  EXPECT_EQ(JsonOf(progress, now_, CoordinatorStatus(), 0).find('\n'), std::string::npos) << "one line";
}

TEST_F(ProgressTest, AccuracyIsAShareOfAllLabels) {
  Make(nn::Task::kClasses, false, 1000, 50);
  Sums sums;
  sums.Train(10, 2.0, 125);
  Report(kWorker, sums);
  const ProgressJson json = Show();
  EXPECT_DOUBLE_EQ(json["accuracy"], 0.25);
  EXPECT_DOUBLE_EQ(json["loss"], 2.0) << "of a row, which is the mean over its labels";
  EXPECT_EQ(json["window"], 10);
}

TEST_F(ProgressTest, SumsOverWorkers) {
  Make();
  Sums one, other;
  one.Train(10, 1.0, 8);
  one.Train(10, 2.0, 6);
  other.Train(20, 0.5, 19);
  Report(kWorker, one);
  Report(kOther, other);
  const ProgressJson json = Show();
  EXPECT_EQ(json["steps"], 3);
  EXPECT_EQ(json["window"], 40);
  EXPECT_DOUBLE_EQ(json["loss"], (10 + 20 + 10) / 40.0);
  EXPECT_DOUBLE_EQ(json["accuracy"], 33 / 40.0);
  // A worker's next report holds the former.
  one.Train(10, 0, 10);
  Report(kWorker, one);
  EXPECT_EQ(Show()["steps"], 4);
  EXPECT_EQ(Show()["window"], 50);
}

TEST_F(ProgressTest, WhatDeadWorkersDidStillCounts) {
  Make();
  Sums dead, successor;
  dead.Train(100, 1, 50);
  Report(kWorker, dead);
  Join(NodeId(9), Role::kWorker);
  successor.Train(50, 2, 50);
  Report(NodeId(9), successor);
  const ProgressJson json = Show();
  EXPECT_EQ(json["steps"], 2);
  EXPECT_EQ(json["window"], 150);
  EXPECT_DOUBLE_EQ(json["loss"], 200.0 / 150);
}

TEST_F(ProgressTest, NodesThatNeverJoinedAndReportsThatWereOvertakenChangeNothing) {
  Make();
  Sums sums, former;
  former.Train(5, 1, 5);
  sums = former;
  sums.Train(5, 1, 5);
  Report(kWorker, sums);
  const ProgressJson before = Show();
  Report(kWorker, former);
  Report(NodeId(77), sums);
  Report(kServer, sums);  // no worker
  progress_->OnServer(now_, kWorker, {.pushes = 5, .staleness_sum = 9, .staleness_count = 1});
  progress_->OnServer(now_, NodeId(77), {.duplicates = 5});
  progress_->OnBots(now_, kWorker, {.node = kWorker, .published = 1000});
  progress_->OnBots(now_, NodeId(77), {.node = NodeId(77), .published = 1000});
  EXPECT_EQ(Show(), before);
}

TEST_F(ProgressTest, FiguresSinceTheStartCoverTheWholeRun) {
  Make(nn::Task::kBinary, false, 100);
  Sums sums;
  Status(0);
  for (int i = 0; i < 10; ++i) {
    sums.Train(100, i, 50 + static_cast<uint64_t>(i));
    sums.Score(i < 5 ? 0.2f : 0.8f, 0, i % 2 == 0);
    Report(kWorker, sums);
    Status(sums.progress.events);
  }
  const ProgressJson json = Show();
  EXPECT_GT(json["loss"], 8) << "of the window";
  EXPECT_EQ(json["since_start"]["events"], 1000);
  EXPECT_DOUBLE_EQ(json["since_start"]["loss"], 4.5);
  EXPECT_DOUBLE_EQ(json["since_start"]["accuracy"], 0.545);
  EXPECT_DOUBLE_EQ(json["since_start"]["auc"], sums.scores.Auc());
  EXPECT_FALSE(json.contains("fading"));
  EXPECT_FALSE(json.contains("drift"));
}

TEST_F(ProgressTest, ANumberThatIsPredictedHasAMeanAbsoluteError) {
  Make(nn::Task::kRegression, false, 1000, 2);
  Sums sums;
  sums.Train(10, 3, 0);
  sums.progress.absolute_error = 50;
  Report(kWorker, sums);
  EXPECT_DOUBLE_EQ(Show()["mae"], 2.5) << "of a label";
  EXPECT_DOUBLE_EQ(Show()["since_start"]["mae"], 2.5);
  EXPECT_FALSE(Show()["since_start"].contains("accuracy"));
}

TEST_F(ProgressTest, EachBatchReachesTheDetectorOnce) {
  metrics::DriftConfig drift{.detector = metrics::AdwinOptions{.clock = 1}};
  progress_.emplace(Progress::Options{.task = nn::Task::kBinary, .fading = 0.5, .drift = drift});
  Join(kWorker, Role::kWorker);
  Join(kServer, Role::kServer);
  Status(5000);  // events of an earlier run
  metrics::DriftDetector alone(drift);
  std::optional<uint64_t> alarm;
  Sums sums;
  std::vector<protocol::BatchScores> batches;
  for (int i = 0; i < 400; ++i) {
    const double loss = i < 200 ? 0.25 : 1;
    sums.Train(10, loss, 5);
    batches.push_back({10, loss * 10, 5, 0});
    if (alone.Update(loss) && !alarm) alarm = 5000 + 10 * (static_cast<uint64_t>(i) + 1);
    // Every report repeats the last batches of the one before; one of two is lost.
    sums.progress.first_batch = batches.size() < 5 ? 0 : batches.size() - 5;
    sums.progress.batches.assign(batches.begin() + static_cast<ptrdiff_t>(sums.progress.first_batch),
                                 batches.end());
    if (i % 2 == 1) Report(kWorker, sums);
  }
  ASSERT_TRUE(alarm);
  const auto alarms = progress_->TakeAlarms();
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_EQ(alarms[0].number, 1u);
  EXPECT_EQ(alarms[0].event, *alarm);
  EXPECT_NEAR(alarms[0].mean, 0.25, 0.1);
  EXPECT_TRUE(progress_->TakeAlarms().empty());
  const ProgressJson json = Show();
  EXPECT_EQ(json["drift"]["detector"], "adwin");
  EXPECT_EQ(json["drift"]["on"], "loss");
  EXPECT_EQ(json["drift"]["alarms"], 1);
  EXPECT_EQ(json["drift"]["last"]["event"], *alarm);
  EXPECT_EQ(json["fading"]["factor"], 0.5);
  EXPECT_DOUBLE_EQ(json["fading"]["loss"], 1);
  EXPECT_DOUBLE_EQ(json["fading"]["accuracy"], 0.5);
  EXPECT_FALSE(json["drift"].contains("rate"));
  drift.alarm = metrics::DriftConfig::Alarm::kRaiseRate;
  progress_.emplace(Progress::Options{.task = nn::Task::kBinary, .fading = {}, .drift = drift});
  EXPECT_EQ(Show()["drift"]["rate"], 1);
}

TEST_F(ProgressTest, BatchesThatAreNotFiniteLeaveTheFiguresAlone) {
  progress_.emplace(
      Progress::Options{.task = nn::Task::kRegression,
                        .fading = 0.9,
                        .drift = metrics::DriftConfig{.on = metrics::DriftConfig::On::kAbsoluteError}});
  Join(kWorker, Role::kWorker);
  Sums sums;
  sums.Train(1, 1, 0);
  const double bad = std::numeric_limits<double>::quiet_NaN();
  sums.progress.batches = {{4, 8, 0, 12}, {4, bad, 0, 1}, {4, 1, 0, bad}, {0, 1, 0, 1}};
  Report(kWorker, sums);
  EXPECT_DOUBLE_EQ(Show()["fading"]["loss"], 2);
  EXPECT_DOUBLE_EQ(Show()["fading"]["mae"], 3);
  EXPECT_EQ(Show()["drift"]["alarms"], 0);
  EXPECT_FALSE(Show()["drift"].contains("last"));
}

TEST_F(ProgressTest, TheWindowLooksBackOnTheLastEvents) {
  Make(nn::Task::kBinary, true, 1600);
  Sums sums;
  Status(0);
  // The loss of each hundred events is its number: the mean over a window tells which it holds.
  for (int hundred = 0; hundred < 100; ++hundred) {
    sums.Train(100, hundred, hundred % 100);
    Report(kWorker, sums);
    Status(sums.progress.events);
    const ProgressJson json = Show();
    const double window = json["window"];
    if (hundred < 16) {
      EXPECT_EQ(window, 100 * (hundred + 1)) << "all there is";
    } else {
      EXPECT_GE(window, 1600) << hundred;
      EXPECT_LE(window, 1600 + 1600 / 16) << hundred;
    }
    const double hundreds = window / 100;
    EXPECT_NEAR(json["loss"], hundred - (hundreds - 1) / 2, 1e-9) << hundred;
  }
  EXPECT_EQ(Show()["steps"], 100) << "steps are of the whole run";
}

TEST_F(ProgressTest, TheWindowOfAucIsThatOfItsEvents) {
  Make(nn::Task::kBinary, true, 1600);
  Sums sums;
  Rng rng(5);
  metrics::AucCounts last;
  const auto train = [&](int events, auto score) {
    for (int i = 0; i < events; ++i) {
      const bool positive = rng.Chance(0.5);
      const float s = score(positive);
      sums.Score(s, positive ? 0.9f : 0.1f, positive);
      if (i % 100 == 99) {
        sums.Train(100, 1, 50);
        Report(kWorker, sums);
        Status(sums.progress.events);
      }
    }
  };
  train(5000, [](bool positive) { return positive ? 0.2f : 0.8f; });  // always wrong
  EXPECT_NEAR(Show()["auc"], 0, 1e-12);
  train(5000, [](bool positive) { return positive ? 0.8f : 0.2f; });  // always right
  EXPECT_NEAR(Show()["auc"], 1, 1e-12) << "nothing of the first half is left";
  EXPECT_NEAR(Show()["auc_possible"], 1, 1e-12);
}

TEST_F(ProgressTest, ALongJumpIsAWindowOfItsOwn) {
  Make(nn::Task::kClasses, false, 1000);
  Sums sums;
  Status(0);
  sums.Train(50'000, 1, 0);
  Report(kWorker, sums);
  Status(50'000);
  EXPECT_EQ(Show()["window"], 50'000);
  sums.Train(50'000, 3, 50'000);
  Report(kWorker, sums);
  Status(100'000);
  EXPECT_EQ(Show()["window"], 50'000) << "the first jump is more than a window ago";
  EXPECT_EQ(Show()["loss"], 3.0);
}

TEST_F(ProgressTest, EntriesFitTheTask) {
  Make(nn::Task::kRegression, false);
  Sums sums;
  sums.Train(10, 1, 0);
  Report(kWorker, sums);
  ProgressJson json = Show();
  EXPECT_FALSE(json.contains("accuracy"));
  EXPECT_FALSE(json.contains("auc_possible"));
  EXPECT_TRUE(json["auc"].is_null());
  Make(nn::Task::kClasses, false);
  Report(kWorker, sums);
  json = Show();
  EXPECT_EQ(json["accuracy"], 0.0);
  EXPECT_TRUE(json["auc"].is_null());
}

TEST_F(ProgressTest, NumbersThatAreNoneAreNull) {
  Make();
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Sums sums;
    sums.Train(10, bad, 5);
    Report(kWorker, sums);
    const ProgressJson json = Show();
    EXPECT_TRUE(json["loss"].is_null());
    EXPECT_TRUE(json["auc"].is_null()) << "no positives, no negatives";
  }
}

TEST_F(ProgressTest, CountsThatCannotBeReadAreLeftOut) {
  Make();
  Sums sums;
  sums.Train(2, 1, 1);
  sums.Score(0.9f, 0.9f, true);
  sums.Score(0.1f, 0.1f, false);
  Report(kWorker, sums);
  sums.progress.scores = Bytes(3, std::byte{0xff});
  ++sums.progress.steps;
  progress_->OnWorker(now_, kWorker, sums.progress);
  EXPECT_EQ(Show()["auc"], 1.0) << "the last good ones";
  EXPECT_EQ(Show()["steps"], 2);
}

TEST_F(ProgressTest, AnyBytesOfAPeerMakeGoodJson) {
  Make();
  protocol::JoinRequest request;
  request.role = Role::kWorker;
  request.host = "\xff\xfe\"\n\\";
  progress_->OnJoin(now_, kWorker, request);
  Sums sums;
  sums.Train(1, 1, 1);
  sums.progress.dead_letters = 1;
  sums.progress.last_dead_letter = "amount: '\xc3\x28\x00\x80' is not a number";
  Report(kWorker, sums);
  const ProgressJson json = Show();
  EXPECT_EQ(json["dead_letters"], 1);
  EXPECT_TRUE(json["last_dead_letter"].get<std::string>().starts_with("amount: '"));
}

TEST_F(ProgressTest, DeadLettersOfASplitThatIsReadAgainCountOnce) {
  Make();
  Sums lost, other;
  lost.progress.dead_letters = 40;
  other.progress.dead_letters = 40;
  Report(kWorker, lost);
  Report(kOther, other);
  CoordinatorStatus status = Running(955);
  status.ends = {600, 400};
  EXPECT_EQ(progress_->dead_letters(status).count, 80u) << "a count that falls would look like a new process";
  status.finished = true;
  EXPECT_EQ(progress_->dead_letters(status).count, 45u) << "all other events are trained";
  status.ends = {};
  EXPECT_EQ(progress_->dead_letters(status).count, 80u) << "no end is known";
}

TEST_F(ProgressTest, WhatRetentionRemovedIsCountedOverAllWorkers) {
  Make();
  EXPECT_EQ(Show()["lost_to_retention"], 0);
  Sums one, other;
  one.progress.lost_to_retention = 30;
  other.progress.lost_to_retention = 20;
  Report(kWorker, one);
  Report(kOther, other);
  EXPECT_EQ(Show()["lost_to_retention"], 50);
}

TEST_F(ProgressTest, EventsWithoutLabelsAreToldOfInJobsWithLateLabels) {
  Make();
  Sums one, other;
  one.progress.unjoined = 3;
  other.progress.unjoined = 4;
  Report(kWorker, one);
  Report(kOther, other);
  const ProgressJson without = Show();
  EXPECT_FALSE(without.contains("unjoined"));
  EXPECT_FALSE(without.contains("unlabelled"));
  CoordinatorStatus status = Running(100);
  status.unlabelled = 12;
  const ProgressJson json = ProgressJson::parse(JsonOf(*progress_, now_, status, 0));
  EXPECT_EQ(json["unjoined"], 7);
  EXPECT_EQ(json["unlabelled"], 12);
}

TEST_F(ProgressTest, ServersAndBotsAreToldOf) {
  Make();
  progress_->OnServer(now_, kServer,
                      {.pushes = 40,
                       .bytes_held = 4096,
                       .duplicates = 3,
                       .staleness_sum = 30,
                       .staleness_count = 20,
                       .cpu_seconds = 1.5,
                       .conflicts = 2});
  Join(NodeId(8), Role::kServer);
  progress_->OnServer(now_, NodeId(8),
                      {.duplicates = 1, .staleness_sum = 10, .staleness_count = 20, .conflicts = 6});
  progress_->OnBots(now_, kBots, {.node = kBots, .published = 500, .cpu_seconds = 0.25});
  progress_->OnMetrics(kBots, "10.0.0.9:4001");
  Sums sums;
  sums.Train(10, 1, 1);
  sums.progress.cpu_seconds = 2;
  sums.progress.rejected_batches = 2;
  sums.progress.push_retries = 5;
  sums.progress.dead_letters = 2;
  sums.progress.last_dead_letter = "partition 0 offset 5: is missing";
  sums.progress.compute_seconds = 0.75;
  sums.progress.decode_seconds = 0.125;
  Report(kWorker, sums);
  auto status = Running(10);
  status.lag = 490;
  status.leases = 3;
  status.regranted_leases = 4;
  status.overdue_leases = 7;
  status.stuck = {NodeId(8)};
  status.stuck_evicted = {{{NodeId(9), Role::kWorker, 3, ""}, "b", 104}};
  status.evictions = 5;
  using How = CoordinatorStatus::Departure::How;
  status.departures = {{7, {NodeId(9), Role::kWorker, 3, ""}, How::kEvicted},
                       {8, {NodeId(12), Role::kServer, 1, ""}, How::kLost},
                       {9, {NodeId(13), Role::kFeed, 0, ""}, How::kLeft}};
  status.checkpoint = 6;
  status.checkpoint_directory = "/jobs/fraud/checkpoint-000006";
  const ProgressJson json = ProgressJson::parse(JsonOf(*progress_, now_, status, 0.25));
  EXPECT_DOUBLE_EQ(json["staleness_mean"], 1.0);
  EXPECT_EQ(json["duplicates"], 4);
  EXPECT_EQ(json["conflicts"], 8);
  EXPECT_EQ(json["rejected_batches"], 2);
  EXPECT_EQ(json["push_retries"], 5);
  EXPECT_EQ(json["published"], 500);
  ASSERT_EQ(json["bots"].size(), 1u);
  EXPECT_EQ(json["bots"][0]["metrics"], "10.0.0.9:4001");
  progress_->OnBots(now_, kBots, {.node = kBots, .published = 500, .done = true, .cpu_seconds = 0.25});
  EXPECT_FALSE(ProgressJson::parse(JsonOf(*progress_, now_, status, 0.25)).contains("bots"))
      << "they are about to end";
  EXPECT_DOUBLE_EQ(json["aggregated_compute_s"], 1.5 + 0.25 + 2 + 0.25);
  EXPECT_EQ(json["lag"], 490);
  EXPECT_EQ(json["leases"], 3);
  EXPECT_EQ(json["regranted_leases"], 4);
  EXPECT_EQ(json["overdue_leases"], 7);
  EXPECT_EQ(json["evictions"], 5);
  EXPECT_EQ(json["generation"], 5);
  EXPECT_EQ(json["stuck_evicted"].dump(),
            R"([{"host":"b","index":3,"node":9,"pid":104,"role":"worker","stuck":true}])");
  EXPECT_EQ(json["departed"].dump(), R"([{"how":"evicted","index":3,"node":9,"number":7,"role":"worker"},)"
                                     R"({"how":"lost","index":1,"node":12,"number":8,"role":"ps"},)"
                                     R"({"how":"left","index":0,"node":13,"number":9,"role":"feed"}])");
  EXPECT_EQ(json["checkpoint"], "/jobs/fraud/checkpoint-000006");
  EXPECT_EQ(json["directory"], "/jobs/fraud");
  EXPECT_FALSE(json.contains("wanted"));
  ASSERT_EQ(json["members"].size(), 2u);
  EXPECT_EQ(json["members"][0],
            ProgressJson::parse(R"({"role":"ps","index":0,"node":3,"host":"host3","pid":103,"done":40,
                                                "cpu_s":1.5,"bytes_held":4096,"share":1.0,"bytes_in":0,
                                                "bytes_out":0,"bytes_per_s":0.0,"round_trip_ms":null})"));
  EXPECT_EQ(json["members"][1],
            ProgressJson::parse(R"({"role":"worker","index":0,"node":1,"host":"host1","pid":101,
                                                "done":10,"cpu_s":2.0,"steps":1,"compute_s":0.75,"wait_s":0.0,"push_retries":5,
                                                "longest_step_ms":0.0,"dead_letters":2,
                                                "last_dead_letter":"partition 0 offset 5: is missing",
                                                "input_wait_s":0.0,"decode_s":0.125,"splits_ready":0,"input_bytes":0,
                                                "input_bytes_per_s":0.0,"input_events_per_s":0.0,
                                                "step_ms":null,"slow":false,"round_trip_ms":null})"));
}

TEST_F(ProgressTest, AddressesOfMetricsAreTold) {
  Make();
  progress_->OnMetrics(kWorker, "10.0.0.7:4001");
  progress_->OnMetrics(NodeId(77), "10.0.0.8:4001");
  ProgressJson json = Show();
  EXPECT_EQ(json["members"][1]["metrics"], "10.0.0.7:4001");
  EXPECT_FALSE(json["members"][0].contains("metrics"));
  EXPECT_FALSE(json.contains("metrics"));
  EXPECT_EQ(json.dump().find("10.0.0.8"), std::string::npos) << "it is no member";
  progress_.emplace(Progress::Options{.metrics = "10.0.0.5:9464"});
  EXPECT_EQ(Show()["metrics"], "10.0.0.5:9464");
}

TEST_F(ProgressTest, WantedNumbersOfMembers) {
  Make();
  CoordinatorStatus status = Running(0);
  status.wanted = {.workers = {3, 3}, .servers = 2};
  const auto wanted = [&] {
    return ProgressJson::parse(JsonOf(*progress_, now_, status, 0))["wanted"].dump();
  };
  EXPECT_EQ(wanted(), R"({"ps":2,"workers":3})");
  status.wanted.workers = {2, 8};
  status.wanted.reason = "the job begins";
  EXPECT_EQ(wanted(), R"({"ps":2,"range":"2:8","reason":"the job begins"})") << "not known yet";
  status.wanted.chosen = 5;
  status.wanted.hook_failure = "no such program";
  EXPECT_EQ(wanted(), R"({"hook_failure":"no such program","ps":2,"range":"2:8","reason":"the job begins",)"
                      R"("workers":5})");
}

TEST_F(ProgressTest, TheInputOfAWorkerIsMeasured) {
  Make();
  Sums sums;
  sums.Train(10, 0.5, 5);
  sums.progress.input_records = 1000;
  sums.progress.input_bytes = 50'000;
  sums.progress.input_wait_seconds = 0.5;
  sums.progress.splits_ready = 2;
  Report(kWorker, sums);
  sums.progress.input_records = 3000;
  sums.progress.input_bytes = 150'000;
  Pass(0.5);
  Report(kWorker, sums);
  Pass(1.5);
  Report(kWorker, sums);
  CoordinatorStatus status = Running(0);
  status.watermark = {{0, 40}};
  status.ends = {100};
  progress_->OnStatus(now_, status);
  Pass(3);
  const ProgressJson json = ProgressJson::parse(JsonOf(*progress_, now_, status, 0));
  EXPECT_EQ(json["members"][1]["input_events_per_s"], 1000);
  EXPECT_EQ(json["members"][1]["input_bytes_per_s"], 50'000);
  EXPECT_EQ(json["members"][1]["input_wait_s"], 0.5);
  EXPECT_EQ(json["members"][1]["splits_ready"], 2);
  EXPECT_EQ(json["lag_s"], 3);
  EXPECT_EQ(json["partitions"].dump(), R"([{"end":100,"lag":60,"lag_s":3.0,"partition":0}])");
}

TEST_F(ProgressTest, StalenessIsToldByItsDistribution) {
  Make();
  EXPECT_EQ(Show()["staleness_p99"], 0);
  EXPECT_EQ(Show()["staleness"], ProgressJson::array());
  Join(NodeId(8), Role::kServer);
  progress_->OnServer(now_, kServer, {.staleness = {10, 70, 10, 0, 0}});
  progress_->OnServer(now_, NodeId(8), {.staleness = {0, 0, 9, 1}});
  EXPECT_EQ(Show()["staleness"], ProgressJson::parse("[10, 70, 19, 1]"));
  EXPECT_EQ(Show()["staleness_p99"], 2) << "99 of 100";
  progress_->OnServer(now_, NodeId(8), {.staleness = {0, 0, 9, 2}});
  EXPECT_EQ(Show()["staleness_p99"], 3) << "99 of 101 are not enough";
}

TEST_F(ProgressTest, StepsThatWereLateOrSkippedAreTold) {
  Make();
  Join(NodeId(8), Role::kServer);
  progress_->OnServer(now_, kServer, {.skipped = 3});
  progress_->OnServer(now_, NodeId(8), {.skipped = 4});
  auto status = Running(1);
  status.step = 90;
  status.late = 7;
  const ProgressJson json = ProgressJson::parse(JsonOf(*progress_, now_, status, 0));
  EXPECT_EQ(json["strategy"], "async");
  EXPECT_EQ(json["step"], 90);
  EXPECT_EQ(json["late"], 7);
  EXPECT_EQ(json["skipped"], 4) << "each server is told of the same";
  progress_->OnMemberReport(kWorker, {.skipped = 6});
  progress_->OnMemberReport(NodeId(99), {.skipped = 60});
  EXPECT_EQ(Show()["skipped"], 6);
}

TEST_F(ProgressTest, WhoIsSlowIsSeenByWhatItsStepsTake) {
  Make();
  auto status = Running(1);
  status.view.members = {{kWorker, Role::kWorker, 0, ""}, {kOther, Role::kWorker, 1, ""}};
  const auto members = [&] { return ProgressJson::parse(JsonOf(*progress_, now_, status, 0))["members"]; };
  // In step with each other: both make 100 steps in 10 s, and one of them waits for most of the time.
  Sums fast, slow;
  fast.Train(1, 1, 0);
  slow.Train(1, 1, 0);
  Report(kWorker, fast);
  Report(kOther, slow);
  EXPECT_EQ(members()[0]["slow"], false) << "nobody knows yet";
  for (int i = 0; i < 100; ++i) {
    fast.Train(1, 1, 0);
    slow.Train(1, 1, 0);
  }
  fast.progress.wait_seconds = 9;
  slow.progress.wait_seconds = 1;
  Pass(10);
  Report(kWorker, fast);
  Report(kOther, slow);
  EXPECT_DOUBLE_EQ(members()[0]["step_ms"], 10);
  EXPECT_DOUBLE_EQ(members()[1]["step_ms"], 90);
  EXPECT_EQ(members()[0]["slow"], false);
  EXPECT_EQ(members()[1]["slow"], true);
  // A worker that waits for most of the time holds nobody up.
  slow.progress.wait_seconds = 9.2;
  fast.progress.wait_seconds = 9.7;
  Report(kWorker, fast);
  Report(kOther, slow);
  EXPECT_NEAR(members()[1]["step_ms"], 8, 0.001);
  EXPECT_NEAR(members()[0]["step_ms"], 3, 0.001);
  EXPECT_EQ(members()[1]["slow"], false);
  fast.progress.wait_seconds = 9;
  Report(kWorker, fast);
  slow.progress.wait_seconds = 1;
  // A worker that has nothing to train is not slow.
  slow.progress.input_wait_seconds = 8;
  Report(kOther, slow);
  EXPECT_DOUBLE_EQ(members()[1]["step_ms"], 10);
  EXPECT_EQ(members()[1]["slow"], false);
}

TEST_F(ProgressTest, AWorkerThatBecomesSlowIsSeenSoon) {
  Make();
  auto status = Running(1);
  status.view.members = {{kWorker, Role::kWorker, 0, ""}, {kOther, Role::kWorker, 1, ""}};
  Sums fast, slow;
  const auto second = [&](int steps) {
    for (int i = 0; i < 100; ++i) fast.Train(1, 1, 0);
    for (int i = 0; i < steps; ++i) slow.Train(1, 1, 0);
    Pass(1);
    Report(kWorker, fast);
    Report(kOther, slow);
    return ProgressJson::parse(JsonOf(*progress_, now_, status, 0))["members"][1];
  };
  for (int i = 0; i < 3600; ++i) EXPECT_EQ(second(100)["slow"], false);
  int seconds = 1;
  while (!second(50)["slow"] && seconds < 100) ++seconds;
  EXPECT_LE(seconds, 60);
  for (int i = 0; i < 60; ++i) second(50);
  EXPECT_NEAR(second(50)["step_ms"], 20, 0.01);
  // Few steps take as long as they take.
  for (int i = 0; i < 600; ++i) second(i % 10 == 0 ? 1 : 0);
  EXPECT_NEAR(second(0)["step_ms"], 10'000, 500);
}

TEST_F(ProgressTest, TrafficOfServersIsThatOfTheLastMoments) {
  Make();
  progress_->OnServer(now_, kServer, {.bytes_in = 1000});
  for (int i = 1; i <= 4; ++i) {
    Pass(0.5);
    progress_->OnServer(now_, kServer, {.bytes_in = 1000 + 500 * static_cast<uint64_t>(i), .bytes_out = 100});
  }
  EXPECT_EQ(Show()["members"][0]["bytes_per_s"], 1000);
  EXPECT_EQ(Show()["members"][0]["bytes_in"], 3000);
  EXPECT_EQ(Show()["members"][0]["bytes_out"], 100);
}

TEST_F(ProgressTest, SpeedIsThatOfThisRunUpToItsLastEvent) {
  Make();
  Pass(10);      // until the servers are there
  Status(5000);  // events of an earlier run
  Pass(2);
  Status(7000);
  Pass(2);
  Status(9000);
  const double at_work = Show(9000)["events_per_s"];
  EXPECT_EQ(at_work, 1000);
  for (int i = 0; i < 100; ++i) {
    Pass(0.1);
    Status(9000);
  }
  const ProgressJson json = Show(9000);
  EXPECT_EQ(json["events_per_s"], 1000) << "waiting for the last checkpoint is no training";
  EXPECT_EQ(json["training_s"], 4.0);
  EXPECT_EQ(json["wall_s"], 24.0);
  EXPECT_EQ(json["events_per_s_now"], 0);
}

TEST_F(ProgressTest, SpeedNowIsThatOfTheLastSeconds) {
  Make();
  uint64_t events = 0;
  for (int tenth = 0; tenth < 200; ++tenth, Pass(0.1)) {
    events += tenth < 100 ? 10 : 50;
    Status(events);
  }
  EXPECT_NEAR(Show(events)["events_per_s_now"], 500, 40);
}

TEST_F(ProgressTest, EventsThatGoBackWithALostServerAreNoNegativeSpeed) {
  Make();
  Status(1000);
  Pass(1);
  Status(2000);
  Pass(1);
  Status(500);  // a slice has returned from its checkpoint
  const ProgressJson json = Show(500);
  EXPECT_EQ(json["events"], 500);
  EXPECT_EQ(json["events_per_s"], 0);
  EXPECT_EQ(json["events_per_s_now"], 0);
}

TEST_F(ProgressTest, SharesOfWorkersAreCompared) {
  const metrics::ShareLayout layout{
      .width = 1, .labels = 1, .classes = 2, .features = {{.name = "amount", .column = 0}}};
  progress_.emplace(
      Progress::Options{.task = nn::Task::kBinary, .shares = WorkerShares::Options{.layout = layout}});
  Join(kWorker, Role::kWorker);
  Join(kOther, Role::kWorker);
  auto status = Running(1);
  status.view.members = {{kWorker, Role::kWorker, 0, ""}, {kOther, Role::kWorker, 1, ""}};
  const auto show = [&] { return ProgressJson::parse(JsonOf(*progress_, now_, status, 0)); };
  ProgressJson json = show();
  EXPECT_EQ(json["skew_warnings"], 0);
  for (const char* key : {"label_skew", "feature_skew", "skewed"})
    EXPECT_FALSE(json["members"][0].contains(key)) << "nothing is known of it";
  // All events of a worker have the same label and the same amount.
  metrics::Share shares[] = {metrics::Share(layout), metrics::Share(layout)};
  Sums sums[2];
  for (int round = 0; round < 50; ++round) {
    for (const size_t i : {0, 1}) {
      const float value = i == 0 ? 0 : 1;
      shares[i].Add(layout, std::vector<float>(4, value), std::vector<float>(4, value),
                    std::vector<uint32_t>{0, 1, 2, 3}, 1);
      sums[i].Train(4, 1, 0);
      // A share is not in every report.
      sums[i].progress.share = round % 3 != 0 ? shares[i].Encode() : Bytes();
      Report(i == 0 ? kWorker : kOther, sums[i]);
    }
    Pass(1);
    progress_->OnStatus(now_, status);
  }
  json = show();
  EXPECT_EQ(json["skew_warnings"], 4);
  for (const size_t i : {0, 1}) {
    const ProgressJson& member = json["members"][i];
    EXPECT_NEAR(member["label_skew"], 0.5, 0.01);
    EXPECT_NEAR(member["feature_skew"], 1, 0.01) << "half of a distance of two standard deviations";
    EXPECT_EQ(member["skewed_feature"], "amount");
    EXPECT_EQ(member["skewed"], true);
  }
  const auto notices = progress_->TakeShareNotices();
  ASSERT_EQ(notices.size(), 4u);
  for (const char* skew : {"worker 0: label skew", "worker 0: feature skew of 'amount'",
                           "worker 1: label skew", "worker 1: feature skew of 'amount'"}) {
    EXPECT_EQ(std::ranges::count_if(notices, [&](const auto& n) { return n.text.starts_with(skew); }), 1)
        << skew;
  }
  EXPECT_TRUE(progress_->TakeShareNotices().empty());
  // A share that cannot be read changes nothing.
  const ProgressJson before = show();
  sums[0].progress.share = Bytes(3, std::byte{0xff});
  Report(kWorker, sums[0]);
  Pass(1);
  progress_->OnStatus(now_, status);
  EXPECT_EQ(show()["members"][0]["label_skew"], before["members"][0]["label_skew"]);
  // A single worker is not compared.
  status.view.members.pop_back();
  sums[0].Train(4, 1, 0);
  shares[0].Add(layout, std::vector<float>{1}, std::vector<float>{1}, std::vector<uint32_t>{0}, 1);
  sums[0].progress.share = shares[0].Encode();
  Report(kWorker, sums[0]);
  Pass(1);
  progress_->OnStatus(now_, status);
  const ProgressJson alone = show()["members"][0];
  EXPECT_TRUE(alone["label_skew"].is_null());
  EXPECT_TRUE(alone["feature_skew"].is_null());
  EXPECT_FALSE(alone.contains("skewed_feature"));
  EXPECT_EQ(alone["skewed"], false);
  EXPECT_EQ(progress_->TakeShareNotices().size(), 2u) << "both skews of the worker are over";
}

// Whatever has been counted by a node that left long ago stays counted, without the node.
TEST_F(ProgressTest, NodesThatLeftLongAgoAreForgottenAndStayCounted) {
  Make(nn::Task::kBinary, true, 1'000'000);
  Status(0);
  Sums gone, here;
  gone.Train(100, 0.5, 60);
  gone.Score(0.9f, 0.9f, true);
  gone.progress.dead_letters = 3;
  gone.progress.unjoined = 5;
  gone.progress.lost_to_retention = 6;
  gone.progress.push_retries = 3;
  gone.progress.last_dead_letter = "bad";
  gone.progress.rejected_batches = 2;
  gone.progress.cpu_seconds = 7;
  here.Train(50, 0.25, 40);
  here.Score(0.2f, 0.1f, false);
  const NodeId lost_server(9);
  Join(lost_server, Role::kServer);
  protocol::ServerProgress server;
  server.duplicates = 4;
  server.staleness = {1, 2};
  server.staleness_sum = 2;
  server.staleness_count = 3;
  server.skipped = 1;
  progress_->OnServer(now_, lost_server, server);
  Report(kOther, gone);  // not in the view of Running
  Report(kWorker, here);
  Status(150);
  ProgressJson before = Show(150);
  // A worker that comes and goes every second.
  for (uint64_t node = 100; node < 2100; ++node) {
    now_ += std::chrono::seconds(1);
    Join(NodeId(node), Role::kWorker);
    Sums some;
    some.Train(1, 0, 1);
    Report(NodeId(node), some);
    Report(kWorker, here);
    Status(150);
    EXPECT_LE(progress_->nodes(), 5u + 661u) << "of ten minutes, and those not looked at yet";
  }
  now_ += Progress::kForgetAfter + std::chrono::minutes(1);
  Status(150);
  EXPECT_EQ(progress_->nodes(), 2u) << "of the view";
  const ProgressJson after = Show(150);
  EXPECT_EQ(after["steps"], before["steps"].get<uint64_t>() + 2000);
  CoordinatorStatus late = Running(150);
  late.unlabelled = 0;
  EXPECT_EQ(ProgressJson::parse(JsonOf(*progress_, now_, late, 0))["unjoined"], 5);
  EXPECT_EQ(after["push_retries"], 3);
  EXPECT_EQ(after["lost_to_retention"], 6);
  for (const char* same : {"dead_letters", "last_dead_letter", "rejected_batches", "duplicates", "staleness",
                           "staleness_mean", "staleness_p99", "skipped", "auc", "aggregated_compute_s"}) {
    EXPECT_EQ(after[same], before[same]) << same;
  }
  // A late report of a forgotten node changes nothing.
  gone.Train(1000, 1, 0);
  Report(kOther, gone);
  EXPECT_EQ(Show(150)["steps"], after["steps"]);
}

TEST_F(ProgressTest, ServersOfEachVariable) {
  protocol::SliceTable table;
  table.variables = {
      {.name = "w", .shape = {4, 3}}, {.name = "b", .shape = {3}}, {.name = "c", .shape = {2}}};
  table.slices = {{0, 0, 4}, {0, 4, 8}, {0, 8, 12}, {1, 0, 3}, {2, 0, 2}};
  progress_.emplace(Progress::Options{.table = std::make_shared<const protocol::SliceTable>(table)});
  CoordinatorStatus status = Running(0);
  status.view.members.push_back({kOther, Role::kServer, 3, ""});
  const NodeId nowhere(0), gone(77);
  status.view.slices = {{kOther}, {kServer}, {kOther}, {kServer}, {gone}};
  EXPECT_EQ(ProgressJson::parse(JsonOf(*progress_, now_, status, 0))["variables"], ProgressJson::parse(R"([
    {"name": "w", "bytes": 48, "ps": [{"index": 0, "bytes": 16}, {"index": 3, "bytes": 32}]},
    {"name": "b", "bytes": 12, "ps": [{"index": 0, "bytes": 12}]},
    {"name": "c", "bytes": 8, "ps": []}])"));
  status.view.slices = {{nowhere}};
  const ProgressJson nobody = ProgressJson::parse(JsonOf(*progress_, now_, status, 0));
  for (const ProgressJson& variable : nobody["variables"]) EXPECT_TRUE(variable["ps"].empty()) << variable;
  Make();
  EXPECT_FALSE(Show().contains("variables")) << "a job without servers";
}

TEST_F(ProgressTest, LearningRate) {
  Make();
  EXPECT_FALSE(Show().contains("learning_rate"));
  optim::OptimizerConfig optimizer;
  optimizer.learning_rate = 0.5f;
  optimizer.schedule.type = optim::Schedule::Type::kStep;
  optimizer.schedule.every = 10;
  optimizer.schedule.factor = 0.1;
  progress_.emplace(Progress::Options{.optimizer = optimizer});
  CoordinatorStatus status = Running(0);
  const auto rate = [&] {
    return ProgressJson::parse(JsonOf(*progress_, now_, status, 0))["learning_rate"].get<double>();
  };
  EXPECT_DOUBLE_EQ(rate(), 0.5);
  // Updates of the servers, or the step of a stepped strategy.
  progress_->OnUpdates(10);
  progress_->OnUpdates(9);
  EXPECT_DOUBLE_EQ(rate(), 0.05);
  status.step = 20;
  EXPECT_DOUBLE_EQ(rate(), 0.005);
  status.rate = 3;
  EXPECT_DOUBLE_EQ(rate(), 0.015);
}

}  // namespace
}  // namespace leat::report
