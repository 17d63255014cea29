// Whole pools in virtual time, against an oracle of fair shares that shares no code with the scheduler.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "base/testing.h"
#include "protocol/pool/testing.h"

namespace leat::pool {
namespace {

constexpr double kCores = 8;

// A job's claim, in cores.
struct Claim {
  JobId id;
  int priority;
  double share, least, most;
};

// Fair shares in cores by water-filling, one priority after the other. Jobs whose minimum does not fit are
// not in the result.
std::map<JobId, double> FairShares(std::vector<Claim> claims, double cores) {
  std::ranges::sort(claims, [](const Claim& a, const Claim& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.id < b.id;
  });
  std::vector<Claim> in;
  for (const Claim& claim : claims) {
    if (claim.least > cores + 1e-9) continue;
    cores -= claim.least;
    in.push_back(claim);
  }
  std::map<JobId, double> shares;
  for (const Claim& claim : in) shares[claim.id] = claim.least;
  for (size_t begin = 0; begin < in.size();) {
    size_t end = begin;
    while (end < in.size() && in[end].priority == in[begin].priority) ++end;
    // Raises the lowest level to the next one at which a job joins or is full.
    while (cores > 1e-9) {
      double level = 1e300, next = 1e300, rising = 0;
      const auto open = [&](const Claim& c) { return shares[c.id] < c.most - 1e-9; };
      for (size_t i = begin; i < end; ++i)
        if (open(in[i])) level = std::min(level, shares[in[i].id] / in[i].share);
      if (level == 1e300) break;
      for (size_t i = begin; i < end; ++i) {
        if (!open(in[i])) continue;
        const double own_level = shares[in[i].id] / in[i].share;
        if (own_level > level + 1e-12) {
          next = std::min(next, own_level);
        } else {
          rising += in[i].share;
          next = std::min(next, in[i].most / in[i].share);
        }
      }
      const double raise = std::min(next - level, cores / rising);
      for (size_t i = begin; i < end; ++i) {
        if (open(in[i]) && shares[in[i].id] / in[i].share <= level + 1e-12)
          shares[in[i].id] = (level + raise) * in[i].share;
      }
      cores -= raise * rising;
    }
    begin = end;
  }
  return shares;
}

TEST(FairSharesOracle, KnownCases) {
  const auto equal = FairShares({{1, 0, 1, 1, 8}, {2, 0, 1, 1, 8}, {3, 0, 1, 1, 8}}, 8);
  EXPECT_NEAR(equal.at(1), 8.0 / 3, 1e-9);
  const auto capped = FairShares({{1, 0, 1, 1, 2}, {2, 0, 1, 1, 8}, {3, 0, 3, 1, 8}}, 8);
  EXPECT_NEAR(capped.at(1), 1.6, 1e-9);
  EXPECT_NEAR(capped.at(3), 4.8, 1e-9);
  const auto priority = FairShares({{1, 0, 1, 1, 8}, {2, 5, 1, 2, 4}, {3, 0, 1, 4, 8}}, 8);
  EXPECT_NEAR(priority.at(2), 3, 1e-9) << "the minimums come first";
  EXPECT_NEAR(priority.at(1), 1, 1e-9);
  EXPECT_FALSE(FairShares({{1, 0, 1, 5, 8}, {2, 0, 1, 4, 8}}, 8).contains(2));
}

Resources CoresOf(double cores) {
  return {static_cast<uint64_t>(cores * 1000), uint64_t{1} << 30};
}

struct PoolWorld {
  std::vector<Resources> offers;
  std::vector<SimulatedJob> jobs;
  double unit = 1;  // cores of a server or worker
};

// Three jobs on 8 cores, which arrive in random order.
PoolWorld RandomWorld(Rng* rng, bool same_priority) {
  PoolWorld world;
  world.unit = rng->Chance(0.5) ? 1 : 0.5;
  const auto hosts = size_t{1} << rng->Below(3);
  for (size_t i = 0; i < hosts; ++i) {
    world.offers.push_back(CoresOf(kCores / static_cast<double>(hosts)));
    world.offers.back().memory = uint64_t{1} << 40;
  }
  std::vector<int> priorities{0, 1, 2};
  for (size_t i = 2; i > 0; --i) std::swap(priorities[i], priorities[rng->Below(i + 1)]);
  for (int i = 0; i < 3; ++i) {
    SimulatedJob job;
    job.spec.name = "job" + std::to_string(i);
    job.spec.priority = same_priority ? 0 : priorities[static_cast<size_t>(i)];
    job.spec.share = 0.5 + rng->Uniform() * 2;
    job.spec.resources = {CoresOf(0), CoresOf(world.unit), CoresOf(world.unit)};
    job.spec.servers = static_cast<uint32_t>(1 + rng->Below(2));
    const auto places = static_cast<uint32_t>(kCores / world.unit);
    job.spec.least_workers = static_cast<uint32_t>(1 + rng->Below(places / 2 - 1));
    job.most = job.spec.least_workers + static_cast<uint32_t>(rng->Below(places - job.spec.least_workers));
    job.most = std::min(job.most, places - job.spec.servers);
    job.spec.least_workers = std::min(job.spec.least_workers, job.most);
    job.spec.workers = job.spec.least_workers;
    if (rng->Chance(0.5)) {
      job.want_interval = 60 + rng->Uniform() * 100;
    } else {
      job.spec.workers = job.most;
    }
    if (rng->Chance(0.5)) job.spec.bucket = "s3://bucket/" + job.spec.name;
    job.arrives = rng->Uniform() * 200;
    // Alone, it would run for some minutes.
    job.events = static_cast<uint64_t>(job.rate * (200 + rng->Uniform() * 200) * job.most);
    world.jobs.push_back(job);
  }
  return world;
}

std::string Describe(const Simulation& simulation, JobId job, double has, double fair) {
  return "at " + std::to_string(simulation.now()) + " s job " + std::to_string(job) + " has " +
         std::to_string(has) + " cores, its fair share is " + std::to_string(fair);
}

void CheckRoom(Simulation& s) {
  for (const auto& agent : s.agents()) {
    Resources used;
    for (const auto& [number, process] : agent.processes)
      used += s.Find(process.id.job)->spec.resources.of(process.id.role);
    if (!used.Fits(agent.offer)) s.errors.push_back(agent.name + " has more processes than it has room for");
  }
}

std::map<JobId, double> FairNow(Simulation& s, const PoolWorld& world) {
  std::vector<Claim> claims;
  for (const SimulatedJob& job : s.jobs()) {
    if (job.id == 0 || job.over) continue;
    const uint32_t least = std::min(job.spec.least_workers, job.want);
    claims.push_back({job.id, job.spec.priority, job.spec.share, (job.spec.servers + least) * world.unit,
                      (job.spec.servers + std::max(job.want, least)) * world.unit});
  }
  return FairShares(claims, kCores);
}

double g_worst = 0;
uint64_t g_preemptions = 0, g_moves = 0;

void RunSeed(uint64_t seed, bool same_priority) {
  Rng rng(seed);
  const PoolWorld world = RandomWorld(&rng, same_priority);
  Simulation simulation(seed, world.offers, world.jobs, {});
  std::map<JobId, bool> complete;
  std::map<JobId, uint32_t> wants;
  simulation.check = [&](Simulation& s) {
    CheckRoom(s);
    const auto fair = FairNow(s, world);
    // The pool hears of a want, of the end of a job and of an arrival one report later.
    std::map<JobId, uint32_t> now;
    for (const SimulatedJob& job : s.jobs()) now[job.id] = job.over ? 0 : job.want;
    const bool quiet = now == wants;
    wants = now;
    for (const JobStatus& status : s.pool().jobs(s.time())) {
      SimulatedJob& job = *s.Find(status.record.id);
      if (status.record.state != JobState::kRunning || job.over) {
        complete[job.id] = false;
        continue;
      }
      if (!complete[job.id]) complete[job.id] = s.IsComplete(job);
      if (!complete[job.id]) continue;
      const uint32_t workers = s.Count(job.id, ProcessRole::kWorker);
      const uint32_t servers = s.Count(job.id, ProcessRole::kServer);
      const uint32_t least = std::min(job.spec.least_workers, job.want);
      if (quiet && (workers < least || servers < job.spec.servers))
        s.errors.push_back("job " + std::to_string(job.id) + " runs below its minimum");
      if (!fair.contains(job.id)) {
        if (quiet) s.errors.push_back(Describe(s, job.id, workers * world.unit, 0));
        continue;
      }
      const double granted = (status.grant.servers + status.grant.workers) * world.unit;
      if (quiet && std::abs(granted - fair.at(job.id)) > 1 + 1e-6)
        s.errors.push_back(Describe(s, job.id, granted, fair.at(job.id)));
      job.used += (workers + servers) * world.unit * Simulation::kStep;
      job.fair += fair.at(job.id) * Simulation::kStep;
    }
  };
  const bool ended = simulation.Run(20'000);
  ASSERT_EQ(simulation.errors, std::vector<std::string>()) << "seed " << seed;
  ASSERT_TRUE(ended) << "seed " << seed << ": a job does not end";
  EXPECT_EQ(simulation.ended_by_signal, 0u)
      << "seed " << seed << ": a worker leaves when its coordinator says so";
  for (const SimulatedJob& job : simulation.jobs()) {
    EXPECT_EQ(job.trained, job.events) << "seed " << seed;
    EXPECT_EQ(job.lost, 0u) << "seed " << seed << ": job " << job.id << " was stopped before it had saved";
    g_preemptions += job.resumes;
    g_moves += job.moves;
    g_worst = std::max(g_worst, std::abs(job.used - job.fair) / job.fair);
    EXPECT_NEAR(job.used / job.fair, 1, 0.05) << "seed " << seed << ", job " << job.id << ": " << job.used
                                              << " core-seconds, fair are " << job.fair;
  }
}

TEST(PoolSimulation, ThreeJobsOfDifferentPriorityOnEightCores) {
  const uint64_t seeds = SeedsOf(1000, 10);
  for (uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) RunSeed(seed, false);
  RecordProperty("worst_deviation", std::to_string(g_worst));
  EXPECT_GT(g_preemptions, seeds / 10) << "jobs that were preempted as a whole";
  EXPECT_GT(g_moves, seeds / 50) << "some of them go on elsewhere, from their buckets";
}

TEST(PoolSimulation, ThreeJobsOfOnePriority) {
  const uint64_t seeds = LongTier() ? 1000 : 50;
  for (uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) RunSeed(seed, true);
}

TEST(PoolSimulation, JobsEndWhateverDies) {
  const uint64_t seeds = LongTier() ? 1000 : 50;
  for (uint64_t seed = 1; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
    Rng rng(seed);
    const PoolWorld world = RandomWorld(&rng, rng.Chance(0.5));
    const Simulation::Faults faults{
        .lost_report = rng.Uniform() * 0.3, .agent_dies = 0.004, .pool_dies = 0.01, .worker_dies = 0.001};
    Simulation simulation(seed, world.offers, world.jobs, faults);
    simulation.check = CheckRoom;
    const bool ended = simulation.Run(50'000);
    ASSERT_EQ(simulation.errors, std::vector<std::string>()) << "seed " << seed;
    ASSERT_TRUE(ended) << "seed " << seed << ": a job does not end";
    for (const SimulatedJob& job : simulation.jobs()) EXPECT_EQ(job.trained, job.events) << "seed " << seed;
  }
}

// Brokers that are away, for which the program has an exit status, and hosts whose disks are full.
TEST(PoolSimulation, JobsEndWhateverIsAwayForAWhile) {
  const uint64_t seeds = LongTier() ? 1000 : 50;
  for (uint64_t seed = 1; seed <= seeds && !testing::Test::HasFailure(); ++seed) {
    Rng rng(seed);
    const PoolWorld world = RandomWorld(&rng, rng.Chance(0.5));
    const Simulation::Faults faults{.lost_report = rng.Uniform() * 0.3,
                                    .agent_dies = rng.Chance(0.5) ? 0.002 : 0,
                                    .pool_dies = rng.Chance(0.5) ? 0.01 : 0,
                                    .worker_dies = 0.0005,
                                    .host_fills = 0.005,
                                    .brokers_leave = 0.002};
    Simulation simulation(seed, world.offers, world.jobs, faults);
    simulation.check = CheckRoom;
    const bool ended = simulation.Run(100'000);
    ASSERT_EQ(simulation.errors, std::vector<std::string>()) << "seed " << seed;
    ASSERT_TRUE(ended) << "seed " << seed << ": a job does not end";
    for (const JobStatus& status : simulation.pool().jobs(simulation.time()))
      EXPECT_NE(status.record.state, JobState::kFailed) << "seed " << seed << ": " << status.record.reason;
    for (const SimulatedJob& job : simulation.jobs()) EXPECT_EQ(job.trained, job.events) << "seed " << seed;
  }
}

}  // namespace
}  // namespace leat::pool
