#include "protocol/pool/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace leat::pool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr Resources kHost{4000, 64 * kGiB};

// A worker has a core and 1 GiB; the other processes have next to nothing.
JobDemand Job(uint64_t id, uint32_t least, uint32_t workers) {
  JobDemand job;
  job.id = id;
  job.resources.worker = {1000, kGiB};
  job.least_workers = least;
  job.workers = workers;
  return job;
}
std::vector<uint32_t> Workers(const std::vector<Resources>& hosts, const std::vector<JobDemand>& jobs) {
  std::vector<uint32_t> workers;
  for (const JobGrant& grant : Schedule(hosts, hosts, jobs)) workers.push_back(grant.workers);
  return workers;
}

TEST(Scheduler, OfOnePriorityInProportionToShares) {
  std::vector<JobDemand> jobs{Job(1, 1, 8), Job(2, 1, 8)};
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(4, 4));
  jobs[1].share = 3;
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(2, 6));
  jobs[1].workers = 5;
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(3, 5)) << "no more than it wants";
}

TEST(Scheduler, MinimumsComeBeforeWantsOfAHigherPriority) {
  std::vector<JobDemand> jobs{Job(1, 2, 8), Job(2, 1, 8)};
  jobs[1].priority = 1;
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(2, 6));
  jobs[1].least_workers = 7;
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(0, 8)) << "the other one is not admitted";
}

TEST(Scheduler, TheRestGoesToThoseThatAreOwedMost) {
  std::vector<JobDemand> jobs{Job(1, 1, 4), Job(2, 1, 4), Job(3, 1, 4)};
  jobs[1].owed = 5;
  const auto grants = Schedule({kHost}, {kHost}, jobs);
  EXPECT_EQ(grants[1].workers, 2u);
  EXPECT_NEAR(grants[0].fair_workers, 4.0 / 3, 1e-6);
  jobs[1].owed = -5;
  EXPECT_EQ(Workers({kHost}, jobs)[1], 1u);
}

TEST(Scheduler, MemoryLimitsAndCountsAsCoresDo) {
  JobDemand large = Job(1, 1, 8);
  large.resources.worker = {100, 16 * kGiB};
  EXPECT_THAT(Workers({kHost}, {large}), ElementsAre(4));
  // Each worker of the first takes a quarter of the memory, of the second a quarter of the cores.
  EXPECT_THAT(Workers({kHost}, {large, Job(2, 1, 8)}), ElementsAre(3, 3));
}

TEST(Scheduler, AProcessNeedsOneHost) {
  JobDemand wide = Job(1, 1, 2);
  wide.resources.worker.millicores = 3000;
  EXPECT_THAT(Workers({kHost, kHost}, {wide}), ElementsAre(2));
  EXPECT_TRUE(FitsAlone({kHost}, wide));
  wide.resources.worker.millicores = 5000;
  EXPECT_FALSE(FitsAlone({kHost, kHost}, wide));
}

TEST(Scheduler, AJobBeginsWithItsWholeMinimumOnTheHostOfItsDirectory) {
  std::vector<JobDemand> jobs{Job(1, 3, 4)};
  jobs[0].home = 1;
  const auto grants = Schedule({kHost, kHost}, {kHost, kHost}, jobs);
  EXPECT_THAT(NextStarts({{1000, kGiB * 8}, {1000, kGiB * 8}}, jobs, grants), IsEmpty());
  const auto starts = NextStarts({kHost, kHost}, jobs, grants);
  ASSERT_EQ(starts.size(), 4u) << "a coordinator and three workers";
  EXPECT_EQ(starts[0].process, (PlacedProcess{ProcessRole::kCoordinator, 1}));
  jobs[0].lost_home = true;
  EXPECT_FALSE(Schedule({kHost}, {kHost}, jobs)[0].admitted);
}

TEST(Scheduler, NoJobGrowsWhileOneBeforeItWaits) {
  std::vector<JobDemand> jobs{Job(1, 3, 3), Job(2, 1, 4)};
  jobs[1].processes = {{ProcessRole::kCoordinator, 0}, {ProcessRole::kWorker, 0}};
  jobs[0].priority = 1;
  const std::vector<Resources> hosts{kHost, kHost};
  const auto grants = Schedule(hosts, hosts, jobs);
  EXPECT_EQ(grants[1].workers, 4u);
  EXPECT_THAT(NextStarts({{2000, kGiB * 9}, {0, 0}}, jobs, grants), IsEmpty());
}

}  // namespace
}  // namespace leat::pool
