#include "show/report/figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "show/report/progress.h"

namespace leat::report {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

template <class T>
void ExpectWhole(Figures<T> figures) {
  std::set<std::string_view> metrics, tags;
  for (const auto& figure : figures) {
    EXPECT_TRUE(figure.help.ends_with('.')) << figure.help;
    EXPECT_NE(figure.value == nullptr, figure.values == nullptr) << figure.help;
    EXPECT_EQ(figure.values == nullptr, figure.label.empty()) << figure.help;
    EXPECT_EQ(figure.shown.as == Shown::As::kCell, figure.shown.label.empty()) << figure.help;
    EXPECT_TRUE(figure.shown.chart == Chart::kNone || figure.series != Series::kCount) << figure.help;
    EXPECT_TRUE(figure.metric.empty() || metrics.insert(figure.metric).second) << figure.metric;
    EXPECT_TRUE(figure.tag.empty() || tags.insert(figure.tag).second) << figure.tag;
  }
}

TEST(Figures, AreReadInOneWayAndNamedOnce) {
  ExpectWhole(kJobFigures);
  ExpectWhole(kMemberFigures);
  ExpectWhole(kWorkerRates);
  ExpectWhole(kServerRates);
  ExpectWhole(kWorkerFigures);
  ExpectWhole(kServerFigures);
}

TEST(Figures, EachSeriesHasOne) {
  std::multiset<Series> seen;
  for (const auto& figure : kJobFigures) seen.insert(figure.series);
  for (const auto& figure : kWorkerRates) seen.insert(figure.series);
  for (const auto& figure : kServerRates) seen.insert(figure.series);
  for (const auto& [series, name] : EnumeratorsOf(Series())) {
    // The sampler makes it from the histogram.
    EXPECT_EQ(seen.count(series), series == Series::kStaleness ? 0u : 1u) << name;
  }
}

TEST(Figures, WhatAWorkerWaitedForEachServer) {
  Progress progress({.job = "fraud"});
  const NodeId worker(7);
  progress.OnJoin(Time{1}, worker, {.role = protocol::Role::kWorker});
  protocol::WorkerProgress report;
  report.server_waits = {{0, 1.5}, {3, 0.25}};
  progress.OnWorker(Time{2}, worker, report);
  protocol::CoordinatorStatus status;
  status.view.members = {{.node = worker, .role = protocol::Role::kWorker}};
  const JobStatus shown = progress.Show(Time{3}, status, 0);
  EXPECT_THAT(ToJson(shown), HasSubstr(R"("server_waits":[{"ps":0,"wait_s":1.5},{"ps":3,"wait_s":0.25}])"));
  const auto row =
      std::ranges::find(kWorkerFigures, "wait_s_by_server", &Figure<protocol::WorkerProgress>::tag);
  ASSERT_NE(row, kWorkerFigures.end());
  EXPECT_EQ(row->metric, "leat_worker_wait_for_server_seconds_total");
  EXPECT_THAT(row->values(shown.members[0].worker->progress), ElementsAre(Pair("0", 1.5), Pair("3", 0.25)));
}

}  // namespace
}  // namespace leat::report
