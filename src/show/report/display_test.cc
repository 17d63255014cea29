#include "show/report/display.h"
#include "base/testing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace leat::report {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Json Example() {
  return Json::parse(R"({"job":"fraud","phase":"running","events":1480128,"events_per_s":40211.0,
    "events_per_s_now":39870.4,"steps":11563,"loss":0.09211,"accuracy":0.97,"auc":0.93125,"auc_possible":0.93911,
    "window":200000,"strategy":"ssp","staleness_mean":1.256,"staleness_p99":4,"step":5000,"late":0,"skipped":0,"lag":1024,"published":1481152,"dead_letters":3,"regranted_leases":2,
    "generation":12,"wall_s":75.4,"aggregated_compute_s":130.25,"checkpoint":"/jobs/fraud/checkpoint-000004",
    "members":[
      {"role":"ps","index":0,"node":1,"pid":101,"done":23126,"cpu_s":12.34,"bytes_held":1234567,"bytes_per_s":45600000.0},
      {"role":"worker","index":1,"node":4,"pid":104,"done":740064,"cpu_s":55.55}]})");
}

JobStatus Read(const char* text) {
  return StatusFromJson(text).value();
}
JobStatus Read(const Json& json) {
  return Read(json.dump().c_str());
}

// The number of characters on a screen.
size_t Width(const std::string& line) {
  return static_cast<size_t>(std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }));
}
bool IsUtf8(const std::string& text) {
  return !Json(text).dump(-1, ' ', false, Json::error_handler_t::ignore).empty() &&
         Json(text).dump(-1, ' ', false, Json::error_handler_t::ignore) ==
             Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

TEST(RenderTable, AsItIs) {
  std::string rule;
  for (int i = 0; i < 79; ++i) rule += "─";
  EXPECT_THAT(RenderTable(Read(Example()), {0.5, 0.75, 1.0}, 80, false),
              ElementsAre("leat · fraud · running · 01:15 · generation 12", rule,
                          "events 1,480,128      39,870/s      lag 1,024        published 1,481,152",
                          "loss 0.0921   auc 0.9313 of 0.9391 possible   accuracy 0.9700",
                          "ssp: staleness 1.26 (99%: 4)   steps 11,563   leased again 2   dead letters 3",
                          "auc / possible ▁▅█", rule,
                          "member                pid           done    cpu s   held MB     MB/s",
                          "ps 0                  101         23,126     12.3      1.23     45.6",
                          "worker 1              104        740,064     55.5                   ", rule,
                          "checkpoint /jobs/fraud/checkpoint-000004"));
}

TEST(RenderTable, AMemberThatCannotWorkIsMarked) {
  Json status = Example();
  status["members"][0]["stuck"] = true;
  status["members"][1]["unreachable"] = {"ps 0", "ps 2"};
  EXPECT_THAT(RenderTable(Read(status), {}, 80, false),
              ::testing::IsSupersetOf({"ps 0 is stuck", "worker 1 cannot reach ps 0, ps 2"}));
  EXPECT_THAT(RenderLine(Read(status)), HasSubstr("   ps 0 is stuck   worker 1 cannot reach ps 0, ps 2"));
  status["stuck_evicted"] = {{{"role", "worker"}, {"index", 2}, {"stuck", true}}};
  EXPECT_THAT(RenderLine(Read(status)), HasSubstr("   worker 2 was evicted and is stuck   "));
}

TEST(Render, WorkersThatStandByOrLeaveAreMarked) {
  Json status = Example();
  EXPECT_THAT(RenderLine(Read(status)), HasSubstr("   1 workers, 1 ps"));
  status["members"][1]["state"] = "draining";
  status["members"].push_back({{"role", "worker"}, {"index", 0}, {"pid", 105}, {"state", "standby"}});
  const auto table = RenderTable(Read(status), {}, 80, false);
  EXPECT_THAT(table, ::testing::Contains(::testing::EndsWith("  leaving")));
  EXPECT_THAT(table, ::testing::Contains(::testing::StartsWith("standby 0 ")));
  EXPECT_THAT(RenderLine(Read(status)), HasSubstr("   1 workers, 1 standby, 1 ps"));
}

TEST(Render, WantedNumbersAreShownIfTheyDiffer) {
  Json status = Example();
  const auto table = [&] { return RenderTable(Read(status), {}, 80, false); };
  status["wanted"] = {{"workers", 1}, {"ps", 1}};
  EXPECT_THAT(table(), Not(::testing::Contains(HasSubstr("wanted"))));
  status["members"].push_back({{"role", "worker"}, {"index", 0}, {"pid", 105}, {"state", "standby"}});
  EXPECT_THAT(table(), Not(::testing::Contains(HasSubstr("wanted")))) << "one stands by";
  status["wanted"]["workers"] = 3;
  EXPECT_THAT(table(), ::testing::Contains("wanted: 3 workers, 1 ps"));
  EXPECT_THAT(RenderLine(Read(status)), Not(HasSubstr("wanted")));
  status["phase"] = "stopping";
  EXPECT_THAT(table(), Not(::testing::Contains(HasSubstr("wanted"))));
  status["wanted"] = {{"range", "1:4"}, {"reason", "1 worker: lag 0.3 s"}, {"workers", 1}, {"ps", 1}};
  EXPECT_THAT(table(),
              ::testing::IsSupersetOf({"wanted: 1 workers, 1 ps", "autoscaler: 1 worker: lag 0.3 s"}));
  EXPECT_THAT(RenderLine(Read(status)), HasSubstr("   wanted: 1 workers, 1 ps"));
  status["wanted"]["hook_failure"] = "kubectl ended with status 1";
  EXPECT_THAT(table(),
              ::testing::Contains("wanted: 1 workers, 1 ps; the hook failed: kubectl ended with status 1"));
}

TEST(Render, WorkersWithSkewedSharesAreMarked) {
  Json status = Example();
  Json& worker = status["members"][1];
  worker["label_skew"] = 0.4249;
  worker["feature_skew"] = 0.93;
  worker["skewed_feature"] = "amount";
  worker["skewed"] = false;
  const auto shown = [&](const std::string& text) { return text.find("skew") != std::string::npos; };
  EXPECT_FALSE(shown(RenderLine(Read(status))) || shown(RenderSummary(Read(status))));
  worker["skewed"] = true;
  const std::string text = "worker 1: label skew 0.42, feature skew 0.93 (amount)";
  EXPECT_THAT(RenderTable(Read(status), {}, 80, false), ::testing::Contains(text));
  EXPECT_THAT(RenderLine(Read(status)), HasSubstr("   " + text));
  EXPECT_THAT(RenderSummary(Read(status)), HasSubstr("  skew                  " + text + "\n"));
  // A job without features of which there are distributions, and one without labels.
  worker.erase("skewed_feature");
  worker["feature_skew"] = nullptr;
  EXPECT_THAT(RenderSummary(Read(status)), HasSubstr("  skew                  worker 1: label skew 0.42\n"));
  worker["label_skew"] = nullptr;
  EXPECT_THAT(RenderSummary(Read(status)), HasSubstr("worker 1: label skew –\n"));
}

TEST(Render, DriftAndFiguresOfTheWholeRunAreShown) {
  Json status = Example();
  status["drift"] = Json::parse(R"({"detector":"adwin","on":"error","alarms":0})");
  EXPECT_THAT(RenderTable(Read(status), {}, 80, false),
              ::testing::Contains("drift: 0 alarms of adwin on error"));
  status["drift"] =
      Json::parse(R"({"detector":"adwin","on":"error","alarms":1,"last":{"event":12345,"mean":0.25}})");
  const std::string shown = "1 alarm of adwin on error, the last at event 12,345 (mean before it 0.2500)";
  EXPECT_THAT(RenderTable(Read(status), {}, 90, false), ::testing::Contains("drift: " + shown));
  EXPECT_THAT(RenderLine(Read(status)), HasSubstr("   drift: " + shown));
  status["drift"]["rate"] = 1;
  EXPECT_THAT(RenderLine(Read(status)), Not(HasSubstr("learning rate")));
  status["drift"]["rate"] = 2.5;
  EXPECT_THAT(RenderLine(Read(status)), HasSubstr("(mean before it 0.2500); learning rate × 2.50 now"));
  status["drift"].erase("rate");
  status["since_start"] = Json::parse(R"({"events":1000000,"loss":0.5,"accuracy":0.75,"auc":null})");
  status["fading"] = Json::parse(R"({"factor":0.999,"loss":0.25,"mae":0.125})");
  const std::string summary = RenderSummary(Read(status));
  EXPECT_THAT(summary, HasSubstr("drift                 " + shown));
  EXPECT_THAT(summary,
              HasSubstr("since the start       loss 0.5000   accuracy 0.7500 over 1,000,000 events"));
  EXPECT_THAT(summary, HasSubstr("with fading 0.9990    loss 0.2500   mae 0.1250"));
}

TEST(RenderTable, NothingIsKnownYet) {
  const auto lines = RenderTable(
      Read(
          R"({"job":"j","phase":"waiting for servers","events":0,"loss":null,"accuracy":null,"auc":null,
          "auc_possible":null,"members":[],"wall_s":0.0,"checkpoint":null})"),
      {}, 80, false);
  ASSERT_EQ(lines.size(), 9u) << "no curve, no members";
  EXPECT_EQ(lines[0], "leat · j · waiting for servers · 00:00 · generation 0");
  EXPECT_EQ(lines[3], "loss –   accuracy –");
  EXPECT_EQ(lines[4], "async: staleness –   steps 0   leased again 0   dead letters 0");
  EXPECT_EQ(lines.back(), "checkpoint none yet");
}

TEST(RenderTable, ShowsWhatTheJobWaitsFor) {
  Json status = Example();
  const size_t usual = RenderTable(Read(status), {}, 80, false).size();
  EXPECT_THAT(RenderLine(Read(status)), ::testing::Not(HasSubstr("waiting")));
  status["checkpoint_failure"] = "/jobs/j: needs 12 MiB";
  auto lines = RenderTable(Read(status), {}, 80, false);
  EXPECT_EQ(lines.size(), usual + 1);
  EXPECT_THAT(lines, ::testing::Contains("last checkpoint failed: /jobs/j: needs 12 MiB"));
  status["waiting_for"] = "the journal: no space";
  lines = RenderTable(Read(status), {}, 80, false);
  EXPECT_EQ(lines.size(), usual + 1);
  EXPECT_THAT(lines, ::testing::Contains("waiting for the journal: no space"));
  EXPECT_THAT(RenderLine(Read(status)), ::testing::EndsWith("   waiting for the journal: no space"));
}

TEST(RenderTable, EveryWidthCutsBetweenCharacters) {
  Json status = Example();
  status["job"] = "détection·日本語";
  status["checkpoint"] = "/jobs/détection/ü";
  for (size_t columns = 0; columns < 100; ++columns) {
    for (const auto& line : RenderTable(Read(status), {0.1, 0.4, 0.2}, columns, false)) {
      EXPECT_LE(Width(line), std::max<size_t>(columns, 2) - 1) << columns << ": " << line;
      EXPECT_TRUE(IsUtf8(line)) << columns;
    }
  }
  EXPECT_EQ(RenderTable(Read(status), {}, 9, false)[0], "leat · d");
  EXPECT_EQ(RenderTable(Read(status), {}, 10, false)[0], "leat · dé");
}

TEST(RenderTable, ColourChangesNothingButColour) {
  const auto plain = RenderTable(Read(Example()), {}, 60, false);
  auto coloured = RenderTable(Read(Example()), {}, 60, true);
  ASSERT_EQ(coloured.size(), plain.size());
  EXPECT_THAT(coloured[0], HasSubstr("\x1b["));
  for (size_t i = 0; i < plain.size(); ++i) {
    auto& line = coloured[i];
    for (const std::string code : {"\x1b[0m", "\x1b[1m", "\x1b[2m"}) {
      for (size_t at = 0; (at = line.find(code)) != std::string::npos;) line.erase(at, code.size());
    }
    EXPECT_EQ(line, plain[i]);
  }
}

TEST(RenderTable, TheCurveShowsTheWholeHistory) {
  std::vector<double> history(1000);
  for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<double>(i);
  Json status = Example();
  status.erase("auc");
  const auto lines = RenderTable(Read(status), history, 80, false);
  EXPECT_THAT(lines[5], ::testing::StartsWith("accuracy ▁"));
  EXPECT_THAT(lines[5], ::testing::EndsWith("█"));
  EXPECT_EQ(Width(lines[5]), 79u);
  EXPECT_THAT(RenderTable(Read(status), {1, 1, 1}, 80, false)[5], "accuracy ▅▅▅") << "flat is the middle";
}

TEST(RenderTable, WhatIsNoStatusIsRefused) {
  for (const char* text : {"", "{", "[]", "3", "null", "\"text\""}) {
    EXPECT_EQ(StatusFromJson(text).status().code(), Code::kDataLoss) << text;
  }
}

TEST(RenderLine, AsItIs) {
  EXPECT_EQ(RenderLine(Read(Example())),
            "01:15  running  events 1,480,128 (39,870/s)  loss 0.0921   auc 0.9313 of 0.9391 possible   "
            "accuracy 0.9700   staleness 1.26   lag 1,024   1 workers, 1 ps");
  Json status = Example();
  status["wall_s"] = 3600 + 61;
  status["auc"] = nullptr;
  status["loss"] = nullptr;
  status["events"] = 999;
  status["events_per_s_now"] = 1000;
  status.erase("accuracy");
  status["members"] = Json::array();
  EXPECT_EQ(RenderLine(Read(status)),
            "1:01:01  running  events 999 (1,000/s)  loss –   staleness 1.26   lag 1,024   0 workers, 0 ps");
}

TEST(RenderStart, SaysWhatTheFiguresMean) {
  EXPECT_THAT(RenderStart({.bot_events = 2'000'000, .bot_rate = 40'000, .window = 300'000, .auc = true}),
              ElementsAre("bots publish 2,000,000 events at 40,000 a second: this sets the job's speed "
                          "(--rate 0 removes the limit)",
                          "loss, accuracy and AUC cover the last 300,000 events, each scored before the "
                          "model trains on it",
                          "done: events trained (worker), gradient pushes (ps), events published (bots)"));
  EXPECT_THAT(RenderStart({.bot_events = 500, .window = 1000, .servers = false}),
              ElementsAre("bots publish 500 events as fast as possible",
                          "loss and accuracy cover the last 1,000 events, each scored before the model "
                          "trains on it",
                          "done: events trained (worker), events published (bots)"));
}

TEST(RenderSummary, AsItIs) {
  Json summary = Example();
  summary["phase"] = "ended";
  summary["test_accuracy"] = 0.9812;
  summary["test_loss"] = 0.0654;
  summary["test_rows"] = 10000;
  EXPECT_EQ(RenderSummary(Read(summary)),
            "job 'fraud' ended\n"
            "  events                1,480,128 in every slice, each once\n"
            "  speed                 40,211 events/s, 11,563 steps\n"
            "  loss                  0.0921 over the last 200,000 events, scored before training on them\n"
            "  AUC                   0.9313 of 0.9391 possible\n"
            "  accuracy              0.9700\n"
            "  test accuracy         0.9812\n"
            "  test loss             0.0654 over 10,000 rows\n"
            "  strategy              ssp, step 5,000\n"
            "  staleness             1.26 updates on average, 99% at most 4\n"
            "  dead letters          3\n"
            "  time                  75.4 s, 130.2 s of CPU time\n"
            "  checkpoint            /jobs/fraud/checkpoint-000004\n");
}

// Counts that are 0 in most jobs are shown if they are not.
TEST(RenderSummary, WhoWasSlowAndWhatWasLate) {
  Json summary = Example();
  summary["late"] = 1234;
  summary["skipped"] = 2;
  summary["warnings"] = {"ps 0 carries 99% of the bytes"};
  summary["members"][1]["slow"] = true;
  summary["members"][1]["step_ms"] = 12.345;
  const std::string text = RenderSummary(Read(summary));
  EXPECT_THAT(text, HasSubstr("  late                  1,234 runs, trained in another step\n"));
  EXPECT_THAT(text, HasSubstr("  skipped               2 updates that were not finite\n"));
  EXPECT_THAT(text, HasSubstr("  slow                  worker 1 (12.3 ms a step)\n"));
  EXPECT_THAT(text, HasSubstr("  warning               ps 0 carries 99% of the bytes\n"));
  const auto lines = RenderTable(Read(summary), {}, 91, false);
  const auto shown = [&](const std::string& part) {
    return std::ranges::any_of(lines, [&](const auto& line) { return line.find(part) != std::string::npos; });
  };
  EXPECT_TRUE(shown("late 1,234   skipped 2"));
  EXPECT_TRUE(shown("warning: ps 0 carries 99%"));
  EXPECT_TRUE(shown("  slow"));
}

TEST(RenderSummary, OfANumberThatIsPredicted) {
  const std::string text = RenderSummary(Read(R"({"job":"j","phase":"ended","test_loss":1.5,"test_rows":99,
      "test_dead_letters":1})"));
  EXPECT_THAT(text, HasSubstr("  test loss             1.5000 over 99 rows, 1 did not fit the schema\n"));
  EXPECT_THAT(text, Not(HasSubstr("accuracy")));
}

TEST(RenderSummary, OfAJobThatDidNothing) {
  EXPECT_EQ(RenderSummary(Read(R"({"job":"j","phase":"ended","loss":null,"auc":null,"checkpoint":null})")),
            "job 'j' ended\n"
            "  events                0 in every slice, each once\n"
            "  speed                 0 events/s, 0 steps\n"
            "  loss                  – over the last 0 events, scored before training on them\n"
            "  strategy              async\n"
            "  staleness             – updates on average\n"
            "  time                  – s, – s of CPU time\n"
            "  checkpoint            none\n");
}

// ---- output without a terminal

class PlainDisplayTest : public ::testing::Test {
 protected:
  PlainDisplayTest() : out_(std::fopen((directory_ / "out").c_str(), "w")) {}
  ~PlainDisplayTest() override { std::fclose(out_); }
  std::string Written() const { return ReadAll(directory_ / "out"); }

  TempDir directory_;
  std::FILE* out_;
};

TEST_F(PlainDisplayTest, ALineEveryTwoSecondsOfTheJob) {
  Json status = Example();
  {
    Display display(out_);
    for (double wall = 0; wall < 7; wall += 0.25) {
      status["wall_s"] = wall;
      display.Show(Read(status));
    }
    display.Say("a worker is gone");
    display.Finish();
  }
  const std::string text = Written();
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
  for (const char* line : {"00:00  running", "00:02  running", "00:04  running", "00:06  running"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, ::testing::EndsWith("a worker is gone\n"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "escape sequences are for terminals only";
}

}  // namespace
}  // namespace leat::report
