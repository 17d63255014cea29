#include "lab/sim/invariants.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "lab/sim/counting.h"
#include "lab/sim/swarm.h"

namespace leat::sim {
namespace {

using std::chrono::seconds;

// A job that never ends: no split can be read.
ClusterResult Stuck(ClusterOptions options) {
  options.faults = {.split_unreadable = 1, .until = Time::max()};
  CountingWorkload workload(options.table, options.strategy);
  return Cluster(options, workload).Run();
}

TEST(Invariants, AJobThatStopsIsNamedByTheDeadlineForProgress) {
  for (const auto kind : {protocol::StrategyKind::kAsync, protocol::StrategyKind::kAllReduce}) {
    ClusterOptions options = SwarmOptions({.strategy = {.kind = kind, .lanes = 4}});
    options.checkpoint_interval = Duration(0);
    options.progress_within = seconds(8);
    const ClusterResult result = Stuck(options);
    ASSERT_TRUE(result.violation.has_value());
    EXPECT_EQ(result.violation->invariant, Invariant::kJobProgress) << result.error;
    EXPECT_LE(result.took, seconds(17));
    EXPECT_NE(result.error.find(fields::NameOf(Invariant::kJobProgress)), std::string::npos) << result.error;
    EXPECT_FALSE(result.ended);
  }
}

TEST(Invariants, AJobThatDoesNotEndIsNamedByTheDeadline) {
  ClusterOptions options = SwarmOptions({});
  options.progress_within = Duration(0);
  options.time_limit = seconds(7);
  const ClusterResult result = Stuck(options);
  ASSERT_TRUE(result.violation.has_value());
  EXPECT_EQ(result.violation->invariant, Invariant::kJobDeadline) << result.error;
  EXPECT_LE(result.took, seconds(8));
}

TEST(Invariants, AWrongCountIsNamed) {
  ClusterOptions options = SwarmOptions({.events = 4000, .fault_free = true});
  CountingWorkload workload(options.table, options.strategy);
  Cluster cluster(options, workload);
  ASSERT_EQ(cluster.Run().error, "");
  EXPECT_EQ(CheckCounts(cluster, options, workload), std::nullopt);
  options.stream.partitions[0].events += 1;
  const auto cover = CheckCounts(cluster, options, workload);
  ASSERT_TRUE(cover.has_value());
  EXPECT_EQ(cover->invariant, Invariant::kLeasesCover) << *cover;
  options.stream.partitions[0].events -= 1;
  options.strategy.lanes = 1000;
  options.strategy.kind = protocol::StrategyKind::kSync;
  const auto count = CheckCounts(cluster, options, workload);
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(count->invariant, Invariant::kJobCount) << *count;
}

TEST(Invariants, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Invariant::kJobCount); ++i)
    names.emplace(fields::NameOf(static_cast<Invariant>(i)));
  EXPECT_EQ(names.size(), static_cast<size_t>(Invariant::kJobCount) + 1);
  EXPECT_FALSE(names.contains("?"));
}

}  // namespace
}  // namespace leat::sim
