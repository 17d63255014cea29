#include "protocol/pool/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace leat::pool {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kGiB = uint64_t{1} << 30;
HostOffer Free(const Resources& offer, const std::string& host_class = "") {
  return {offer, offer, host_class};
}
const HostOffer kHost = Free({4000, 64 * kGiB});

// A worker has a core and 1 GiB; the other processes have next to nothing.
JobDemand Demand(uint64_t id, uint32_t least, uint32_t workers) {
  JobDemand job;
  job.id = id;
  job.resources.worker = {1000, kGiB};
  job.least_workers = least;
  job.workers = workers;
  return job;
}
std::vector<uint32_t> Workers(const std::vector<HostOffer>& hosts, const std::vector<JobDemand>& jobs) {
  std::vector<uint32_t> workers;
  for (const JobGrant& grant : Schedule(hosts, jobs)) workers.push_back(grant.workers);
  return workers;
}

TEST(Scheduler, OfOnePriorityInProportionToShares) {
  std::vector<JobDemand> jobs{Demand(1, 1, 8), Demand(2, 1, 8)};
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(4, 4));
  jobs[1].share = 3;
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(2, 6));
  jobs[1].workers = 5;
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(3, 5)) << "no more than it wants";
}

TEST(Scheduler, MinimumsComeBeforeWantsOfAHigherPriority) {
  std::vector<JobDemand> jobs{Demand(1, 2, 8), Demand(2, 1, 8)};
  jobs[1].priority = 1;
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(2, 6));
  jobs[1].least_workers = 7;
  EXPECT_THAT(Workers({kHost, kHost}, jobs), ElementsAre(0, 8)) << "the other one is not admitted";
}

TEST(Scheduler, TheRestGoesToThoseThatAreOwedMost) {
  std::vector<JobDemand> jobs{Demand(1, 1, 4), Demand(2, 1, 4), Demand(3, 1, 4)};
  jobs[1].owed = 5;
  const auto grants = Schedule({kHost}, jobs);
  EXPECT_EQ(grants[1].workers, 2u);
  EXPECT_NEAR(grants[0].fair_workers, 4.0 / 3, 1e-6);
  jobs[1].owed = -5;
  EXPECT_EQ(Workers({kHost}, jobs)[1], 1u);
}

TEST(Scheduler, MemoryLimitsAndCountsAsCoresDo) {
  JobDemand large = Demand(1, 1, 8);
  large.resources.worker = {100, 16 * kGiB};
  EXPECT_THAT(Workers({kHost}, {large}), ElementsAre(4));
  // Each worker of the first takes a quarter of the memory, of the second a quarter of the cores.
  EXPECT_THAT(Workers({kHost}, {large, Demand(2, 1, 8)}), ElementsAre(3, 3));
}

TEST(Scheduler, AProcessNeedsOneHost) {
  JobDemand wide = Demand(1, 1, 2);
  wide.resources.worker.millicores = 3000;
  EXPECT_THAT(Workers({kHost, kHost}, {wide}), ElementsAre(2));
  EXPECT_TRUE(FitsAlone({kHost}, wide));
  wide.resources.worker.millicores = 5000;
  EXPECT_FALSE(FitsAlone({kHost, kHost}, wide));
}

TEST(Scheduler, AJobBeginsWithItsWholeMinimumOnTheHostOfItsDirectory) {
  std::vector<JobDemand> jobs{Demand(1, 3, 4)};
  jobs[0].home = 1;
  const auto grants = Schedule({kHost, kHost}, jobs);
  EXPECT_THAT(NextStarts({Free({1000, kGiB * 8}), Free({1000, kGiB * 8})}, jobs, grants), IsEmpty());
  const auto starts = NextStarts({kHost, kHost}, jobs, grants);
  ASSERT_EQ(starts.size(), 4u) << "a coordinator and three workers";
  EXPECT_EQ(starts[0].process, (PlacedProcess{ProcessRole::kCoordinator, 1}));
  jobs[0].lost_home = true;
  EXPECT_FALSE(Schedule({kHost}, jobs)[0].admitted);
}

TEST(Scheduler, NoJobGrowsWhileOneBeforeItWaits) {
  std::vector<JobDemand> jobs{Demand(1, 3, 3), Demand(2, 1, 4)};
  jobs[1].processes = {{ProcessRole::kCoordinator, 0}, {ProcessRole::kWorker, 0}};
  jobs[0].priority = 1;
  const std::vector<HostOffer> hosts{kHost, kHost};
  const auto grants = Schedule(hosts, jobs);
  EXPECT_EQ(grants[1].workers, 4u);
  EXPECT_THAT(NextStarts({Free({2000, kGiB * 9}), Free({})}, jobs, grants), IsEmpty());
}

TEST(Scheduler, AJobGivesWayOnTheHostsThatOneBeforeItNeeds) {
  const std::vector<HostOffer> hosts{Free({4000, 8 * kGiB}, "net"), Free({2000, 8 * kGiB}, "cpu")};
  std::vector<JobDemand> jobs{Demand(1, 1, 3), Demand(2, 2, 2)};
  jobs[0].processes = {{ProcessRole::kCoordinator, 0, 1},
                       {ProcessRole::kWorker, 0, 2},
                       {ProcessRole::kWorker, 1, 3},
                       {ProcessRole::kWorker, 1, 4}};
  EXPECT_TRUE(Schedule(hosts, jobs)[0].displaced.empty()) << "there is room for both elsewhere";
  jobs[1].priority = 1;
  jobs[1].classes.worker = "cpu";
  const auto grants = Schedule(hosts, jobs);
  EXPECT_EQ(grants[0].workers, 3u) << "they fit on the other host";
  EXPECT_THAT(grants[0].displaced, ElementsAre(3, 4));
  jobs[0].workers = 2;
  EXPECT_TRUE(Schedule(hosts, jobs)[0].displaced.empty()) << "its coordinator lets one go first";
}

TEST(Scheduler, ARoleRunsOnHostsOfItsClass) {
  const std::vector<HostOffer> hosts{Free({2000, 8 * kGiB}, "net"), Free({6000, 8 * kGiB}, "cpu")};
  JobDemand job = Demand(1, 1, 8);
  job.classes.worker = "cpu";
  job.resources.server = {1000, kGiB};
  job.least_servers = job.servers = 2;
  job.classes.server = "net";
  const auto grants = Schedule(hosts, {job});
  EXPECT_EQ(grants[0].workers, 6u);
  for (const Start& start : NextStarts(hosts, {job}, grants)) {
    const ProcessRole role = start.process.role;
    if (role != ProcessRole::kCoordinator) {
      EXPECT_EQ(start.process.host, role == ProcessRole::kServer ? 0u : 1u);
    }
  }
  job.least_servers = job.servers = 3;
  EXPECT_FALSE(FitsAlone(hosts, job)) << "there is room, but in the other class";
  job.classes.server = "gpu";
  EXPECT_FALSE(FitsAlone(hosts, job));
}

TEST(Scheduler, JobsShareTheirClassAndTheOthersTheRest) {
  const std::vector<HostOffer> hosts{Free({2000, 8 * kGiB}, "gpu"), Free({6000, 8 * kGiB})};
  std::vector<JobDemand> jobs{Demand(1, 1, 8), Demand(2, 1, 8), Demand(3, 1, 8)};
  jobs[0].classes.worker = jobs[1].classes.worker = "gpu";
  EXPECT_THAT(Workers(hosts, jobs), ElementsAre(1, 1, 6));
  EXPECT_NEAR(Schedule(hosts, jobs)[2].fair_workers, 6, 1e-6);
}

}  // namespace
}  // namespace leat::pool
