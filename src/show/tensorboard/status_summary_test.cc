#include "show/tensorboard/run_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/fields/files/testing.h"
#include "show/report/figures.h"

namespace leat::tensorboard {
namespace {

std::map<std::string, float> Scalars(const Summary& summary) {
  return {summary.scalars.begin(), summary.scalars.end()};
}

TEST(StatusSummary, HasTheFiguresOfTheStatus) {
  const auto status =
      report::StatusFromJson(R"({"events": 1200, "loss": 0.5, "accuracy": 0.75, "auc": null, "lag": 30,
    "auc_possible": 0.875, "events_per_s_now": 64, "staleness_mean": 1.5, "learning_rate": 0.125, "step": 3,
    "fading": {"factor": 0.9, "loss": 0.25}, "members": [
      {"role": "ps", "index": 1, "share": 0.5, "bytes_per_s": 1000},
      {"role": "worker", "index": 0, "step_ms": 2, "wait_s": 1}, {"role": "worker", "index": 16, "step_ms": 2},
      {"role": "worker", "index": 0, "state": "standby"}, {"role": "coordinator", "index": 0},
      {"role": "feed", "index": 0}, {"role": "bots", "index": 0}]})");
  ASSERT_TRUE(status.ok());
  StatusSummary made;
  const Summary summary = made.Take(*status);
  const std::map<std::string, float> expected = {{"learning/loss", 0.5f},
                                                 {"learning/accuracy", 0.75f},
                                                 {"learning/auc_possible", 0.875f},
                                                 {"learning/fading/loss", 0.25f},
                                                 {"learning/learning_rate", 0.125f},
                                                 {"stream/events", 1200},
                                                 {"stream/events_per_s", 64},
                                                 {"stream/lag", 30},
                                                 {"updates/step", 3},
                                                 {"updates/staleness_mean", 1.5f},
                                                 {"members/workers", 2},
                                                 {"members/servers", 1},
                                                 {"members/standbys", 2},
                                                 {"members/feeds", 1},
                                                 {"servers/1/share", 0.5f},
                                                 {"servers/1/bytes_per_s", 1000},
                                                 {"workers/0/step_ms", 2},
                                                 {"workers/0/wait_s", 1}};
  const auto scalars = Scalars(summary);
  EXPECT_THAT(scalars, ::testing::IsSupersetOf(expected));
  EXPECT_FALSE(scalars.contains("learning/auc") || scalars.contains("learning/mae"));
  EXPECT_FALSE(scalars.contains("workers/16/step_ms"));
  for (const auto& [tag, value] : scalars) EXPECT_TRUE(summary.descriptions.contains(tag)) << tag;
  EXPECT_TRUE(made.Take(*status).descriptions.empty()) << "once is enough";
}

TEST(StatusSummary, StalenessSinceTheLastStatus) {
  StatusSummary made;
  const auto take = [&](const std::vector<uint64_t>& staleness) {
    report::JobStatus status;
    status.staleness = staleness;
    return made.Take(status).histograms;
  };
  auto found = take({10, 2});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, "updates/staleness");
  EXPECT_EQ(found[0].histogram.counts, (std::vector<double>{10, 2}));
  found = take({11, 2, 0, 7});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].histogram.counts, (std::vector<double>{1, 0, 7}));
  EXPECT_TRUE(take({11, 2, 0, 7}).empty());
  // Another coordinator may not know the servers of before.
  found = take({3});
  EXPECT_TRUE(found.empty());
  EXPECT_EQ(take({5})[0].histogram.counts, (std::vector<double>{2}));
}

// The rows of a table for those figures that `from` has.
template <class T>
std::string RowsOf(report::Figures<T> figures, const std::string& scope, const T& from) {
  std::string rows;
  for (const auto& figure : figures) {
    if (figure.tag.empty() || (figure.value != nullptr && !scope.empty() && std::isnan(figure.value(from))))
      continue;
    std::string tag = scope + std::string(figure.tag);
    if (!figure.label.empty()) tag += "/" + std::string(figure.label);
    rows += "| `" + tag + "` | " + std::string(figure.unit) + " | " + std::string(figure.help) + " |\n";
  }
  return rows;
}

TEST(StatusSummary, ThePageHasTheTags) {
  report::MemberStatus server, worker;
  server.server.emplace();
  worker.worker.emplace().step_ms = 1;
  fields::DocPage page(LEAT_TENSORBOARD_PAGE);
  EXPECT_EQ(page.Put("<!-- figures: scalars -->", "scalars",
                     "| tag | unit | meaning |\n|---|---|---|\n" + RowsOf(report::kJobFigures, "", {}) +
                         RowsOf(report::kMemberFigures, "servers/N/", server) +
                         RowsOf(report::kMemberFigures, "workers/N/", worker) +
                         RowsOf(report::kWorkerFigures, "workers/N/", worker.worker->progress)),
            "");
  EXPECT_EQ(page.Fault("figures", fields::DocPage::Writes()), "");
}

}  // namespace
}  // namespace leat::tensorboard
