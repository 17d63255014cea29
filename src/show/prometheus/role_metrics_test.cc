#include "show/prometheus/role_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/fields/files/testing.h"

namespace leat::observe {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

std::shared_ptr<RoleMetrics> Make(const std::string& role = "worker") {
  return std::make_shared<RoleMetrics>(RoleMetrics::Options{.role = role, .version = "1.2"});
}

Reply Get(const std::shared_ptr<RoleMetrics>& metrics, const std::string& path) {
  const auto routes = MetricsRoutes(metrics);
  const auto at = std::ranges::find(routes, path, &HttpRoute::path);
  EXPECT_NE(at, routes.end());
  return at->handler({});
}

// Answers with this status.
StatusSource::Ask Always(const std::string& status) {
  return [status](const auto& done) { done(report::StatusFromJson(status).value()); };
}

TEST(RoleMetricsTest, ARoleThatHangsIsNotAlive) {
  const auto metrics = Make();
  const Time now = MonotonicClock().Now();
  metrics->liveness().Watch(now - std::chrono::minutes(2), [] { return uint64_t{3}; });
  EXPECT_EQ(Get(metrics, "/healthz").status, 503);
  EXPECT_EQ(Get(metrics, "/healthz").body, "it hangs: it has done nothing for a minute\n");
  metrics->liveness().Turned(now);
  EXPECT_EQ(Get(metrics, "/healthz").status, 200);
  for (const auto part : {RoleMetrics::Part::kRequests, RoleMetrics::Part::kPredictions}) {
    metrics->liveness(part).Watch(now - std::chrono::minutes(2), [] { return uint64_t{0}; });
    EXPECT_EQ(Get(metrics, "/healthz").status, 503) << "the loop turns, and another part does not";
    metrics->liveness(part).Unwatch();
  }
  EXPECT_EQ(Get(metrics, "/healthz").status, 200);
}

TEST(RoleMetricsTest, AWorkerIsReadyFromItsFirstHeartbeat) {
  const auto metrics = Make();
  EXPECT_EQ(Get(metrics, "/healthz").status, 200);
  EXPECT_EQ(Get(metrics, "/readyz").status, 503);
  EXPECT_EQ(Get(metrics, "/readyz").body, "it has not joined the job\n");
  EXPECT_THAT(metrics->Text(), HasSubstr("leat_ready 0\n"));
  protocol::WorkerHeartbeat heartbeat;
  heartbeat.progress.steps = 12;
  heartbeat.progress.wait_seconds = 0.5;
  heartbeat.progress.last_dead_letter = "a secret record";
  metrics->OnHeartbeat(heartbeat);
  EXPECT_EQ(Get(metrics, "/readyz").status, 200);
  const std::string text = metrics->Text();
  for (const char* line :
       {"leat_build_info{version=\"1.2\",role=\"worker\"} 1\n", "leat_ready 1\n",
        "leat_worker_steps_total 12\n", "leat_worker_server_wait_seconds_total 0.5\n",
        "# TYPE process_cpu_seconds_total counter\n", "# TYPE process_start_time_seconds gauge\n"})
    EXPECT_THAT(text, HasSubstr(line));
  EXPECT_THAT(text, Not(HasSubstr("leat_worker_group")));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  metrics->NotReady("evicted");
  EXPECT_EQ(Get(metrics, "/readyz").body, "evicted\n");
}

TEST(RoleMetricsTest, AMemberOfAGroupShowsItsState) {
  const auto metrics = Make();
  protocol::WorkerHeartbeat heartbeat;
  heartbeat.member_report = protocol::MemberReport{.group = 3, .holds = true, .step = 17};
  metrics->OnHeartbeat(heartbeat);
  const std::string text = metrics->Text();
  for (const char* line : {"leat_worker_group 3\n", "leat_worker_group_connected 0\n",
                           "leat_worker_state_held 1\n", "leat_worker_group_step 17\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(RoleMetricsTest, OtherMembersShowTheirOwn) {
  auto metrics = Make("ps");
  protocol::ServerHeartbeat server;
  server.progress = {.pushes = 4, .bytes_in = 100, .staleness = {3, 1}, .staleness_sum = 1};
  metrics->OnHeartbeat(server);
  EXPECT_THAT(metrics->Text(), HasSubstr("leat_server_pushes_total 4\n"));
  EXPECT_THAT(metrics->Text(), HasSubstr("leat_server_staleness_bucket{le=\"0\"} 3\n"));
  metrics = Make("feed");
  metrics->OnHeartbeat(protocol::FeedHeartbeat{.requests = 5});
  EXPECT_THAT(metrics->Text(), HasSubstr("leat_feed_requests_total 5\n"));
  metrics = Make("bots");
  metrics->OnHeartbeat(protocol::BotsHeartbeat{.published = 6});
  EXPECT_THAT(metrics->Text(), HasSubstr("leat_bots_published_events 6\n"));
  metrics->registry().counter("leat_net_bytes_sent_total", "Bytes.").Add(7);
  EXPECT_THAT(metrics->Text(), HasSubstr("leat_net_bytes_sent_total 7\n"));
}

TEST(RoleMetricsTest, ACoordinatorIsReadyOnceTheJobCanTrain) {
  const auto ready = [](const Json& status, bool needs_workers = true) {
    const auto metrics = Make("coordinator");
    metrics->NeedsWorkers(needs_workers);
    metrics->status().Set(Always(status.dump()));
    const Reply response = Get(metrics, "/readyz");
    EXPECT_EQ(response.status == 200, response.body == "ready\n");
    return response.body;
  };
  Json status{{"phase", "waiting for servers"}};
  EXPECT_EQ(ready(status), "the job: waiting for servers\n");
  EXPECT_EQ(ready(status, false), "the job: waiting for servers\n");
  status["phase"] = "running";
  EXPECT_EQ(ready(status), "the job has no worker\n");
  EXPECT_EQ(ready(status, false), "ready\n") << "it may go without";
  status["members"] = Json::parse(R"([{"role": "ps"}, {"role": "worker", "state": "standby"}])");
  EXPECT_EQ(ready(status), "the job has no worker\n");
  status["members"].push_back({{"role", "worker"}});
  EXPECT_EQ(ready(status), "ready\n");
  status["phase"] = "paused";
  EXPECT_EQ(ready(status), "ready\n");
  status["waiting_for"] = "the journal: /secret/path is full";
  EXPECT_EQ(ready(status), "the job is blocked; its status has the reason\n");
  EXPECT_EQ(ready({{"phase", "ended"}}), "the job: ended\n");
}

TEST(RoleMetricsTest, ACoordinatorListsTargets) {
  const auto metrics = Make("coordinator");
  EXPECT_EQ(Get(metrics, "/targets").status, 503);
  metrics->SetAddress("10.0.0.5:9464");
  metrics->status().Set(Always(R"({"job": "fraud", "members": []})"));
  const Reply response = Get(metrics, "/targets");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.type, "application/json");
  EXPECT_EQ(Json::parse(response.body)[0]["targets"][0], "10.0.0.5:9464");
}

TEST(StatusSourceTest, ManyWhoAskAreOneQuestion) {
  StatusSource source;
  std::atomic<int> asked{0};
  source.Set([&asked](const auto& done) {
    ++asked;
    done({});
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&source] {
      for (int k = 0; k < 100; ++k) EXPECT_TRUE(source.Get().ok());
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LT(asked, 400);
}

TEST(StatusSourceTest, AQuestionThatIsDroppedHasAnAnswer) {
  StatusSource source;
  EXPECT_EQ(source.Get().status().code(), Code::kNotFound);
  StatusSource dropping;
  dropping.Set([](const auto&) {});
  EXPECT_EQ(dropping.Get().status().code(), Code::kUnavailable);
}

TEST(StatusSourceTest, ACoordinatorThatIsBusyHoldsNobodyUp) {
  StatusSource source;
  std::function<void(report::JobStatus)> kept;
  source.Set([&kept](auto done) { kept = std::move(done); });
  const auto answer = source.Get();
  EXPECT_EQ(answer.status().message(), "the coordinator is busy");
  kept({});  // too late; nobody is there any more
}

// ---- docs/metrics.md

template <class T>
std::string TableOf(report::Figures<T> figures, const std::string& labels = "") {
  std::string table = "| metric | type | unit | labels | meaning |\n|---|---|---|---|---|\n";
  for (const auto& figure : figures) {
    if (figure.metric.empty()) continue;
    for (const std::string& cell :
         {"`" + std::string(figure.metric) + "`",
          std::string(figure.metric.ends_with("_total") ? "counter" : "gauge"), std::string(figure.unit),
          figure.label.empty() ? labels : std::string(figure.label), std::string(figure.help)})
      table += "| " + cell + " ";
    table += "|\n";
  }
  return table;
}

TEST(MetricsPageTest, HasTheFigures) {
  fields::DocPage page(LEAT_METRICS_PAGE);
  const auto put = [&page](const std::string& of, const std::string& table) {
    EXPECT_EQ(page.Put("<!-- figures: " + of + " -->", of, table), "");
  };
  put("job", TableOf(report::kJobFigures));
  put("member", TableOf(report::kMemberFigures, "role, index"));
  put("worker", TableOf(report::kWorkerFigures));
  put("group member", TableOf(report::kGroupMemberFigures));
  put("server", TableOf(report::kServerFigures));
  put("feed", TableOf(report::kFeedFigures));
  put("follower", TableOf(report::kFollowFigures));
  put("bots", TableOf(report::kBotsFigures));
  EXPECT_EQ(page.Fault("figures", fields::DocPage::Writes()), "");
}

struct Row {
  std::string type, unit, labels, help;
};
// By metric.
std::map<std::string, Row> RowsOfThePage() {
  std::map<std::string, Row> rows;
  std::ifstream page(LEAT_METRICS_PAGE);
  for (std::string line; std::getline(page, line);) {
    static const std::regex kRow(R"(\| `(\w+)` \| (\w+) \| (.*) \| (.*) \| (.*) \|)");
    std::smatch cells;
    if (!std::regex_match(line, cells, kRow)) continue;
    EXPECT_TRUE(rows.emplace(cells[1], Row{cells[2], cells[3], cells[4], cells[5]}).second)
        << cells[1] << " is listed twice";
  }
  return rows;
}

TEST(MetricsPageTest, HasWhatRolesExport) {
  const auto rows = RowsOfThePage();
  const auto coordinator = Make("coordinator"), server = Make("ps");
  coordinator->status().Set(Always(R"({"job": "fraud", "phase": "running", "staleness_mean": 0.5,
    "staleness": [1, 1], "partitions": [{"partition": 0, "lag": 1, "lag_s": 1}],
    "members": [{"role": "worker"}]})"));
  server->OnHeartbeat(protocol::ServerHeartbeat{});
  for (const auto& role : {coordinator, server}) {
    std::istringstream text(role->Text());
    for (std::string line; std::getline(text, line);) {
      const bool type = line.starts_with("# TYPE ");
      if (!type && !line.starts_with("# HELP ")) continue;
      const size_t end = line.find(' ', 7);
      const std::string name = line.substr(7, end - 7), rest = line.substr(end + 1);
      ASSERT_TRUE(rows.contains(name)) << name;
      EXPECT_EQ(rest, type ? rows.at(name).type : rows.at(name).help) << name;
    }
  }
}

TEST(MetricsPageTest, NamesFollowTheConventions) {
  for (const auto& [name, row] : RowsOfThePage()) {
    EXPECT_EQ(name.ends_with("_total"), row.type == "counter") << name;
    EXPECT_TRUE(name.starts_with("leat_") || name.starts_with("process_")) << name;
    EXPECT_TRUE(row.help.ends_with('.')) << name;
    for (const std::string unit : {"seconds", "bytes", "ratio", "events"}) {
      if (name.ends_with("_" + unit) || name.ends_with("_" + unit + "_total")) {
        EXPECT_EQ(row.unit, unit) << name;
      }
      if (row.unit == unit) {
        EXPECT_THAT(name + "_", HasSubstr("_" + unit + "_"));
      }
    }
  }
}

}  // namespace
}  // namespace leat::observe
