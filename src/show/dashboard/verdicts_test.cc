#include "show/dashboard/dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "show/history/testing.h"

namespace leat::observe {
namespace {

using ::testing::HasSubstr;
using Level = Verdict::Level;
using Kind = Event::Kind;

class VerdictsTest : public ::testing::Test {
 protected:
  static constexpr double kNow = 1000;

  VerdictsTest() {
    for (int t = 700; t <= kNow; t += 5) {
      Sample sample;
      sample.time_s = t;
      sample.span_s = 5;
      sample[Series::kLoss] = 0.1f;
      sample[Series::kEventsPerS] = 1000;
      sample[Series::kArrivedPerS] = 1000;
      sample[Series::kCompute] = 0.6f;
      sample[Series::kWait] = 0.2f;
      sample[Series::kInputWait] = 0.1f;
      sample[Series::kDeadLettersPerS] = 0;
      sample.members = {Server(0, 500), Server(1, 500)};
      recent_.push_back(sample);
    }
  }
  static MemberSample Server(uint32_t index, float bytes_per_s) {
    MemberSample server;
    server.role = MemberSample::Role::kServer;
    server.index = index;
    server.figures.fill(kUnknownValue);
    server.figures[0] = bytes_per_s;
    return server;
  }
  void Set(Series series, float figure) {
    for (Sample& sample : recent_) sample[series] = figure;
  }
  void Happened(Kind kind, double ago, const std::string& text) {
    events_.push_back({.kind = kind, .time_s = kNow - ago, .text = text});
  }
  Verdict Ask(Verdict (*question)(const Evidence&)) {
    return question({Reading(kNow, StatusOf(status_)), recent_, events_});
  }

  nlohmann::json status_ = StatusJson();
  std::vector<Sample> recent_;
  std::vector<Event> events_;
};

TEST_F(VerdictsTest, AJobIsHealthy) {
  status_["checkpoint"] = "/jobs/fraud/checkpoint-000007";
  const Verdict verdict = Ask(Health);
  EXPECT_EQ(verdict.level, Level::kGood);
  EXPECT_EQ(verdict.headline, "Yes");
  EXPECT_EQ(verdict.why, "4 members are well; checkpoint-000007 is complete");
}

TEST_F(VerdictsTest, MembersThatDieOrLackMakeAJobIll) {
  Happened(Kind::kDied, 20, "worker 1 died");
  EXPECT_EQ(Ask(Health).level, Level::kWarn);
  EXPECT_EQ(Ask(Health).headline, "worker 1 died");
  EXPECT_EQ(Ask(Health).why, "20 s ago; 4 members are well");
  status_["members"].erase(3);
  EXPECT_EQ(Ask(Health).headline, "1 of 2 workers are there");
  EXPECT_EQ(Ask(Health).why, "worker 1 died, 20 s ago");
  status_["members"].erase(2);
  EXPECT_EQ(Ask(Health).headline, "No worker is there");
  EXPECT_EQ(Ask(Health).level, Level::kBad);
  events_[0].time_s = kNow - 120;
  status_ = StatusJson();
  EXPECT_EQ(Ask(Health).level, Level::kGood) << "long ago";
}

TEST_F(VerdictsTest, WhatElseMakesAJobIll) {
  const auto expect = [this](Level level, const char* headline, const char* why) {
    EXPECT_EQ(Ask(Health).level, level) << headline;
    EXPECT_EQ(Ask(Health).headline, headline);
    EXPECT_THAT(Ask(Health).why, HasSubstr(why));
    status_ = StatusJson();
    events_.clear();
  };
  status_["members"][2]["stuck"] = true;
  expect(Level::kBad, "worker 0 is stuck", "does nothing");
  status_["members"][2]["unreachable"] = {"ps 0"};
  expect(Level::kBad, "worker 0 cannot reach ps 0", "network");
  status_["waiting_for"] = "space";
  expect(Level::kBad, "Waiting", "for space");
  status_["checkpoint_failure"] = "no space";
  expect(Level::kBad, "The last checkpoint failed", "no space");
  status_["phase"] = "waiting for servers";
  expect(Level::kWarn, "Not training yet", "waiting for servers");
  status_["conflicts"] = 3;
  expect(Level::kBad, "Batches contradict each other", "3 were refused");
  Happened(Kind::kCheckpointFailed, 30, "a checkpoint failed: no space");
  expect(Level::kWarn, "A checkpoint failed", "30 s ago");
  status_["phase"] = "paused";
  expect(Level::kWarn, "Paused", "leat continue");
  status_["warnings"] = {"ps 0 has 80 % of the weights"};
  expect(Level::kWarn, "Yes, with a warning", "80 %");
  status_["phase"] = "ended";
  status_["events"] = 2'000'000;
  expect(Level::kNone, "The job has ended", "2 M events");
  Set(Series::kDeadLettersPerS, 0.5f);
  status_["dead_letters"] = 70;
  expect(Level::kWarn, "Some records do not fit", "70 dead letters");
}

TEST_F(VerdictsTest, ALossThatFallsGrowsOrIsSteady) {
  status_["loss"] = 0.1;
  EXPECT_EQ(Ask(Learning).headline, "Steady: loss 0.1");
  EXPECT_EQ(Ask(Learning).level, Level::kGood);
  EXPECT_EQ(Ask(Learning).why, "changed by 0.0 % in 5 min; AUC 0.6250 of a possible 0.8750");
  for (Sample& sample : recent_)
    sample[Series::kLoss] = static_cast<float>(0.1 + (kNow - sample.time_s) / 1000);
  EXPECT_EQ(Ask(Learning).headline, "Yes: loss 0.1");
  EXPECT_THAT(Ask(Learning).why, HasSubstr("from 0.37"));
  for (Sample& sample : recent_)
    sample[Series::kLoss] = static_cast<float>(0.5 - (kNow - sample.time_s) / 1000);
  EXPECT_EQ(Ask(Learning).headline, "The loss grows");
  EXPECT_EQ(Ask(Learning).level, Level::kWarn);
  recent_.erase(recent_.begin(), recent_.end() - 1);
  EXPECT_EQ(Ask(Learning).headline, "It begins: loss 0.1");
}

TEST_F(VerdictsTest, LearningThatIsInTrouble) {
  Happened(Kind::kDrift, 200, "drift: alarm 1");
  EXPECT_EQ(Ask(Learning).headline, "The stream drifts");
  status_["loss"] = nullptr;
  EXPECT_EQ(Ask(Learning).level, Level::kNone);
  status_["rejected_batches"] = 4;
  EXPECT_EQ(Ask(Learning).level, Level::kBad);
  EXPECT_EQ(Ask(Learning).headline, "The loss is not a number");
}

TEST_F(VerdictsTest, Pace) {
  EXPECT_EQ(Ask(Pace).headline, "Yes: 0 ms behind");
  EXPECT_EQ(Ask(Pace).why, "1000 events/s arrive, 1000 are trained");
  status_["lag"] = 60'000;
  status_["lag_s"] = 60.0;
  EXPECT_EQ(Ask(Pace).headline, "60 s behind, and steady");
  EXPECT_EQ(Ask(Pace).level, Level::kWarn);
  Set(Series::kEventsPerS, 3000);
  EXPECT_EQ(Ask(Pace).headline, "Catching up");
  EXPECT_EQ(Ask(Pace).why, "60k events behind; done in about 30 s");
  Set(Series::kEventsPerS, 500);
  EXPECT_EQ(Ask(Pace).headline, "No: 60 s behind");
  EXPECT_EQ(Ask(Pace).level, Level::kBad);
  // Everything was there at the beginning.
  Set(Series::kArrivedPerS, 0);
  EXPECT_EQ(Ask(Pace).headline, "About 2 min left");
  EXPECT_EQ(Ask(Pace).level, Level::kGood);
  status_["phase"] = "ended";
  status_["lag"] = 0;
  EXPECT_EQ(Ask(Pace).headline, "Everything is trained");
}

TEST_F(VerdictsTest, WhatLimitsAJob) {
  EXPECT_EQ(Ask(Limit).headline, "Computing");
  EXPECT_EQ(Ask(Limit).why, "computing 60 %, waiting for servers 20 %, for input 10 %");
  // A server has the variable that all need: the trap of round-robin placement.
  for (Sample& sample : recent_) sample.members[0].figures[0] = 4500;
  EXPECT_EQ(Ask(Limit).level, Level::kWarn);
  EXPECT_EQ(Ask(Limit).headline, "ps 0 has 90 % of the traffic");
  EXPECT_THAT(Ask(Limit).why, HasSubstr("an even share is 50 %"));
  Set(Series::kWait, 0.01f);
  EXPECT_EQ(Ask(Limit).headline, "Computing") << "nobody waits for it";
  for (Sample& sample : recent_) sample.members[0].figures[0] = 500;
  Set(Series::kWait, 0.7f);
  Set(Series::kCompute, 0.2f);
  EXPECT_EQ(Ask(Limit).headline, "The servers, or the network");
  Set(Series::kWait, 0.1f);
  Set(Series::kInputWait, 0.7f);
  EXPECT_EQ(Ask(Limit).headline, "The stream: workers have time left");
  EXPECT_EQ(Ask(Limit).level, Level::kGood);
  status_["lag_s"] = 60.0;
  EXPECT_EQ(Ask(Limit).headline, "Reading and decoding");
  EXPECT_EQ(Ask(Limit).level, Level::kWarn);
  status_["members"][2]["step_ms"] = 2.0;
  status_["members"][3]["step_ms"] = 5.0;
  status_["members"][3]["slow"] = true;
  EXPECT_EQ(Ask(Limit).headline, "worker 1 is slow");
  EXPECT_EQ(Ask(Limit).why, "5 ms a step, 2.5 times the usual; it is on a");
  status_["phase"] = "stopping";
  EXPECT_EQ(Ask(Limit).level, Level::kNone);
}

TEST_F(VerdictsTest, WithoutAnyFiguresNothingIsKnown) {
  recent_.clear();
  status_ = nlohmann::json::object();
  for (const auto question : {Health, Learning, Pace, Limit}) EXPECT_FALSE(Ask(question).headline.empty());
  status_["phase"] = "running";
  for (const auto question : {Learning, Pace, Limit}) EXPECT_EQ(Ask(question).level, Level::kNone);
}

}  // namespace
}  // namespace leat::observe
