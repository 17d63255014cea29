#include "lab/soak/soak.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "job/job.h"

namespace leat::soak {
namespace {

TEST(RoundPlan, IsAFunctionOfItsSeed) {
  std::set<std::string> different;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    for (const bool hosts : {false, true}) {
      const RoundPlan a = DrawRound(seed, hosts), b = DrawRound(seed, hosts);
      EXPECT_EQ(a.Describe(), b.Describe());
      EXPECT_EQ(a.JobText(), b.JobText());
    }
    different.insert(DrawRound(seed, true).Describe());
  }
  EXPECT_GT(different.size(), 195u);
}

TEST(RoundPlan, DrawsEveryFaultOfEveryPart) {
  std::map<std::pair<FaultKind, Part>, int> drawn;
  std::map<std::string, int> points;
  std::map<std::string, int> strategies;
  std::set<Duration> stops;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const RoundPlan plan = DrawRound(seed, true);
    ++strategies[plan.strategy];
    EXPECT_GE(plan.faults.size(), 1u);
    EXPECT_EQ(plan.servers, 3u);
    uint64_t before = 0;
    for (const RoundFault& fault : plan.faults) {
      ++drawn[{fault.kind, fault.part}];
      if (fault.kind == FaultKind::kDie) ++points[fault.point];
      if (fault.kind == FaultKind::kStop && fault.part == Part::kWorker) stops.insert(fault.lasts);
      EXPECT_GE(fault.moment, before);
      EXPECT_LT(static_cast<double>(fault.moment) + kRate * Seconds(fault.lasts),
                static_cast<double>(plan.events));
      EXPECT_LE(fault.lasts, std::chrono::seconds(60));
      before = fault.moment;
    }
  }
  EXPECT_EQ(drawn.size(), 19u) << "kinds of faults";
  for (const auto& [fault, times] : drawn)
    EXPECT_GT(times, 30) << fields::NameOf(fault.first) << " " << fields::NameOf(fault.second);
  EXPECT_EQ(points.size(), 9u);
  for (const auto& [point, times] : points) EXPECT_GT(times, 10) << point;
  EXPECT_EQ(strategies.size(), RoundStrategies().size());
  using std::chrono::seconds;
  EXPECT_EQ(stops, (std::set<Duration>{seconds(1), seconds(3), seconds(10), seconds(60)}));
}

TEST(RoundPlan, NeedsNothingOfHostsThatAreNotThere) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    const RoundPlan plan = DrawRound(seed, false);
    EXPECT_FALSE(plan.hidden || plan.Has(FaultKind::kCut) || plan.Has(FaultKind::kFullDisk)) << seed;
  }
}

TEST(RoundPlan, MakesJobsThatCount) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const RoundPlan plan = DrawRound(seed, true);
    const job::Job job = job::Job::FromText(plan.JobText(), "job.yaml");
    EXPECT_GE(job.Slices().slices.size(), 8u) << seed;
    EXPECT_EQ(job.servers, 3u);
    EXPECT_EQ(job.stream->bots()->events, plan.events);
    EXPECT_EQ(job.debug.die_at != job::DiePoint::kNone, plan.Has(FaultKind::kDie)) << seed;
    EXPECT_TRUE(job.strategy.on_servers());
    // The parameters are exact as floats.
    EXPECT_LT(plan.events, uint64_t{1} << 24);
  }
}

TEST(RoundPlan, AtMostOneProcessDiesAtAPoint) {
  int moves = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    const RoundPlan plan = DrawRound(seed, true);
    int deaths = 0;
    for (const RoundFault& fault : plan.faults) {
      deaths += fault.kind == FaultKind::kDie;
      if (fault.kind == FaultKind::kDie && fault.point.starts_with("move")) {
        ++moves;
        EXPECT_TRUE(plan.Has(FaultKind::kJoin)) << seed;
      }
    }
    EXPECT_LE(deaths, 1) << seed;
    EXPECT_FALSE(deaths == 1 && plan.hidden) << seed;
    const bool named = plan.JobText().find("die_at: ") != std::string::npos;
    EXPECT_EQ(named, deaths == 1) << seed;
  }
  EXPECT_GT(moves, 20);
}

}  // namespace
}  // namespace leat::soak
