#include "show/dashboard/dashboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/fields/json.h"
#include "show/dashboard/page_files.h"
#include "show/history/testing.h"
#include "show/report/job_status.h"

namespace leat::observe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class DashboardTest : public ::testing::Test {
 protected:
  const HttpRoute* RouteOf(const std::string& path, const std::string& method = "GET") {
    for (const HttpRoute& route : routes_) {
      if (route.path == path && route.method == method) return &route;
    }
    return nullptr;
  }
  Reply Get(const std::string& path, const std::string& query = "", bool known = true,
            const std::string& method = "GET") {
    const HttpRoute* const route = RouteOf(path, method);
    if (route == nullptr) return {.status = 404};
    if (route->access == HttpRoute::Access::kViewers && !known) return {.status = 401};
    return route->handler({.head = {.target = path + "?" + query}, .known = known});
  }
  void Report(double time_s) { monitor_->OnStatus(time_s, StatusOf(status_)); }

  // The messages of a stream's piece: (event, data).
  static std::vector<std::pair<std::string, json>> Messages(const std::optional<std::string>& piece) {
    std::vector<std::pair<std::string, json>> messages;
    std::string text = piece.value_or("");
    while (!text.empty()) {
      const size_t data = text.find("\ndata: "), end = text.find("\n\n");
      EXPECT_TRUE(text.starts_with("event: ") && data < end && end != std::string::npos) << text;
      messages.emplace_back(text.substr(7, data - 7), json::parse(text.substr(data + 7, end - data - 7)));
      text.erase(0, end + 2);
    }
    return messages;
  }

  std::shared_ptr<JobMonitor> monitor_ = std::make_shared<JobMonitor>();
  Dashboard dashboard_{monitor_};
  std::vector<HttpRoute> routes_ = dashboard_.Routes();
  json status_ = StatusJson();
};

TEST_F(DashboardTest, ThePageIsSmallAndNeedsNothingElse) {
  size_t bytes = 0;
  for (const PageFile& file : PageFiles()) {
    bytes += file.content.size();
    EXPECT_FALSE(file.content.empty()) << file.path;
    const Reply response = Get(file.path, {}, false);
    EXPECT_EQ(response.status, 200) << file.path;
    EXPECT_EQ(response.body, file.content);
  }
  EXPECT_LE(bytes, 300'000u);
  const std::string page = Get("/").body;
  for (const char* name : {"style.css", "icon.svg", "theme.js", "chart.js", "main.js"}) {
    EXPECT_THAT(page, HasSubstr(name));
    EXPECT_EQ(Get(std::string("/") + name).status, 200);
  }
  // The policy for its contents would not run these.
  EXPECT_THAT(page, Not(HasSubstr("<style")));
  EXPECT_THAT(page, Not(HasSubstr(" style=")));
  EXPECT_THAT(page, Not(HasSubstr(" onclick")));
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  for (const PageFile& file : PageFiles()) {
    if (std::string_view(file.path) == "/chart.js") continue;
    EXPECT_THAT(std::string(file.content), Not(HasSubstr("innerHTML"))) << file.path;
    EXPECT_THAT(std::string(file.content), Not(HasSubstr("insertAdjacentHTML"))) << file.path;
  }
}

TEST_F(DashboardTest, ThePageHasTheTableOfFigures) {
  const std::string script = Get("/figures.js", {}, false).body;
  const size_t begin = script.find("= ") + 2;
  const json page = json::parse(script.substr(begin, script.rfind(';') - begin));
  std::vector<std::string> charts, columns;
  for (const json& chart : page["charts"]) {
    charts.push_back(chart["title"]);
    // The histogram is no series.
    EXPECT_EQ(chart["figures"].empty(), chart["title"] == "Staleness of updates");
  }
  for (const json& column : page["columns"]) columns.push_back(column["title"]);
  EXPECT_THAT(charts, ElementsAre("Events per second", "Loss", "Quality", "Lag", "Traffic of each server",
                                  "Staleness of updates", "Time of all workers"));
  EXPECT_THAT(columns, ElementsAre("Speed", "Step", "CPU", "Done"));
  EXPECT_EQ(page["charts"][0]["figures"][1], json({{"name", "arrived_per_s"},
                                                   {"label", "arriving"},
                                                   {"unit", "events/s"},
                                                   {"as", "dashed"},
                                                   {"color", 2}}));
  EXPECT_EQ(page["charts"][4]["figures"][0]["total"], "server_bytes_per_s");
  std::set<std::string> bars;
  for (const json& bar : page["bars"]) bars.insert(bar["name"]);
  for (const json& detail : page["details"]) EXPECT_TRUE(bars.contains(detail["label"])) << detail;
}

TEST_F(DashboardTest, FactsAreThoseThatAreKnown) {
  status_["predictions"] = {{"published", 0}};
  Report(100);
  const json facts = Messages(Get("/events").stream()).back().second["facts"];
  std::vector<std::string> labels;
  for (const json& fact : facts) labels.push_back(fact["label"]);
  EXPECT_THAT(labels, ElementsAre("Events trained", "Steps", "Dead letters", "Predictions"));
  EXPECT_EQ(facts[0]["unit"], "events");
}

TEST_F(DashboardTest, TheJobIsForThoseWithTheToken) {
  EXPECT_EQ(Get("/history", {}, false).status, 401);
  EXPECT_EQ(Get("/events", {}, false).status, 401);
  EXPECT_EQ(Get("/session", {}, false, "POST").status, 401);
  EXPECT_EQ(Get("/session", {}, false).body, R"({"authorised":false})");
  EXPECT_FALSE(RouteOf("/session")->grants_cookie);
  EXPECT_TRUE(RouteOf("/session", "POST")->grants_cookie);
  EXPECT_EQ(Get("/session", {}, true, "POST").body, R"({"authorised":true})");
}

TEST_F(DashboardTest, HistoryInColumns) {
  for (int t = 1; t <= 10; ++t) {
    status_["loss"] = t / 16.0;
    status_["members"][2]["done"] = 100 * t;
    if (t == 8) status_["members"].erase(3);
    Report(100 + t);
  }
  const json all = json::parse(Get("/history", "seconds=0").body);
  EXPECT_THAT(all["t"], SizeIs(10));
  EXPECT_THAT(all["series"], SizeIs(kSeries));
  EXPECT_EQ(all["series"]["loss"][9], 0.625);
  EXPECT_EQ(all["series"]["mae"][9], nullptr);
  EXPECT_THAT(all["members"], SizeIs(4));
  EXPECT_EQ(all["members"]["worker 0"]["events_per_s"][9], 100);
  EXPECT_EQ(all["members"]["worker 0"]["events_per_s"][0], nullptr);
  EXPECT_EQ(all["members"]["worker 1"]["events_per_s"][6], 0);
  EXPECT_EQ(all["members"]["worker 1"]["events_per_s"][7], nullptr) << "it is gone";
  for (const auto& [name, column] : all["series"].items()) EXPECT_THAT(column, SizeIs(10)) << name;
  EXPECT_EQ(json::parse(Get("/history", "seconds=4").body)["t"], json({107, 108, 109, 110}));
  EXPECT_THAT(json::parse(Get("/history", "seconds=10&points=5").body)["t"], SizeIs(5));
  for (const std::string nonsense : {"-1", "1e99", "nan", "x", "", "5x"}) {
    const std::string query = "seconds=" + nonsense + "&points=" + nonsense;
    EXPECT_THAT(json::parse(Get("/history", query).body)["t"], SizeIs(10));
  }
}

TEST_F(DashboardTest, WithoutAnythingThereAreEmptyColumns) {
  EXPECT_THAT(json::parse(Get("/history").body)["t"], SizeIs(0));
  const auto stream = Get("/events").stream;
  const auto first = Messages(stream());
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].second.dump(), R"({"live":true})");
  EXPECT_EQ(stream(), "");
  Report(1);
  EXPECT_THAT(Messages(stream()), SizeIs(2));
}

TEST_F(DashboardTest, AStreamBeginsWithTheLogAndFollows) {
  Report(100);
  const auto stream = Get("/events").stream;
  auto messages = Messages(stream());
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].first, "log");
  EXPECT_EQ(messages[0].second[1], json({{"number", 2},
                                         {"time", 100.0},
                                         {"kind", "joined"},
                                         {"member", "ps 0"},
                                         {"node", 1},
                                         {"text", "ps 0 joined (pid 101 on a)"}}));
  EXPECT_EQ(messages[1].first, "frame");
  const json& frame = messages[1].second;
  EXPECT_EQ(frame["status"], json::parse(report::ToJson(*report::StatusFromJson(status_.dump()))));
  EXPECT_EQ(frame["live"], true);
  EXPECT_EQ(frame["sample"]["t"], 100);
  EXPECT_EQ(frame["sample"]["series"]["loss"], 0.5);
  EXPECT_THAT(frame["sample"]["members"], SizeIs(4));
  std::vector<std::string> questions;
  for (const json& verdict : frame["verdicts"]) questions.push_back(verdict["what"]);
  EXPECT_THAT(questions, ElementsAre("health", "learning", "pace", "limit"));

  EXPECT_EQ(stream(), "") << "nothing is new";
  Report(101);
  messages = Messages(stream());
  ASSERT_EQ(messages.size(), 1u) << "the log has nothing new";
  // A slow viewer gets the last frame, and all events.
  for (int t = 102; t < 110; ++t) {
    status_["checkpoint"] = "checkpoint-" + std::to_string(t);
    Report(t);
  }
  messages = Messages(stream());
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_THAT(messages[0].second, SizeIs(8));
  EXPECT_EQ(messages[1].second["time"], 109);
}

TEST_F(DashboardTest, AStreamEndsWithTheJob) {
  Report(100);
  std::vector<std::string> seen;
  std::thread viewer([&, stream = Get("/events").stream]() mutable {
    while (const auto piece = stream()) {
      if (piece->empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (const auto& [event, data] : Messages(piece))
        seen.push_back(event + (event == "frame" && !data["live"] ? " over" : ""));
    }
    stream = nullptr;
  });
  status_["phase"] = "ended";
  Report(101);
  monitor_->Close();
  viewer.join();
  dashboard_.Finish(std::chrono::seconds(10));
  ASSERT_GE(seen.size(), 2u);
  EXPECT_EQ(seen[seen.size() - 2], "frame over");
  EXPECT_EQ(seen.back(), "end");
}

TEST_F(DashboardTest, AJobOfWhichNothingMoreIsHeardIsNotLive) {
  Report(100);
  const auto stream = Get("/events").stream;
  EXPECT_EQ(Messages(stream()).back().second["live"], true);
  monitor_->SetLive(false);
  auto messages = Messages(stream());
  ASSERT_EQ(messages.size(), 1u) << "the stream goes on: the job may";
  EXPECT_EQ(messages[0].second["live"], false);
  EXPECT_EQ(messages[0].second["verdicts"][0]["level"], "bad");
  Report(200);
  EXPECT_EQ(Messages(stream()).back().second["live"], true);
}

TEST_F(DashboardTest, TimesThatCannotBeDoNotBreakTheJson) {
  EXPECT_TRUE(json::accept(HistoryJson({SampleAt(1e300), SampleAt(-1e300)})));
}

TEST_F(DashboardTest, FramesAreMadeOnceForAll) {
  Report(100);
  Frames frames(monitor_);
  const auto first = frames.Latest();
  EXPECT_EQ(first, frames.Latest());
  Report(101);
  EXPECT_NE(first, frames.Latest());
}

TEST_F(DashboardTest, AFrameOfAJobWithManyMembersIsBounded) {
  for (uint64_t node = 10; node < 5000; ++node)
    status_["members"].push_back(WorkerJson(node, static_cast<uint32_t>(node)));
  for (int t = 1; t < 5; ++t) Report(t);
  EXPECT_LT(Frames(monitor_).Latest()->json.size(), 200'000u);
  EXPECT_LT(Get("/history").body.size(), 200'000u);
}

TEST_F(DashboardTest, RecordsAndPeersDoNotBreakTheJson) {
  status_["members"][2]["last_dead_letter"] = "partition 0 offset 1: '</script><b>\"\n\x01' is not a number";
  status_["members"][2]["host"] = "a\"b\nc";
  Report(1);
  std::string event = fields::ToJson(std::vector<Event>{Event{.text = "\xff\xfe<b>\n"}});
  EXPECT_THAT(event, Not(HasSubstr("\n")));
  EXPECT_TRUE(json::accept(event));
  const auto messages = Messages(Get("/events").stream());
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].second.back()["text"], status_["members"][2]["last_dead_letter"]);
}

TEST(DashboardLinkTest, TheTokenIsInNoRequest) {
  EXPECT_EQ(DashboardLink("127.0.0.1:8080", false, "abc"), "http://127.0.0.1:8080/#abc");
  EXPECT_EQ(DashboardLink("h:1", true, "abc"), "https://h:1/#abc");
}

}  // namespace
}  // namespace leat::observe
