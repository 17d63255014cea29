#include "protocol/testing/virtual_job.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace leat::protocol::testing {
namespace {

// LEAT_SEEDS=20000 for a night.
uint64_t Seeds() {
#ifdef LEAT_SANITIZED
  constexpr uint64_t kSeeds = 60;
#else
  constexpr uint64_t kSeeds = 250;
#endif
  const char* wanted = std::getenv("LEAT_SEEDS");
  return wanted ? std::strtoull(wanted, nullptr, 10) : kSeeds;
}

TEST(VirtualJob, CountsEveryEventOnceInPeace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    VirtualJobOptions options;
    options.seed = seed;
    options.faults = NoFaults();
    const VirtualJobResult result = RunVirtualJob(options);
    EXPECT_EQ(result.mistake, "") << "seed " << seed;
    EXPECT_EQ(result.duplicates, 0u) << "seed " << seed << ": something was trained twice";
    EXPECT_EQ(result.releases, 0u) << "seed " << seed;
    EXPECT_LT(Seconds(result.took), Seconds(options.stream_takes) + 2) << "seed " << seed;
  }
}

TEST(VirtualJob, CountsEveryEventOnceWhateverGoesWrong) {
  VirtualJobResult all;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    const VirtualJobResult result = RunVirtualJob(Swarm(seed));
    EXPECT_EQ(result.mistake, "") << "seed " << seed;
    all.deaths += result.deaths;
    all.pauses += result.pauses;
    all.restarts += result.restarts;
    all.resumes += result.resumes;
    all.checkpoints += result.checkpoints;
    all.duplicates += result.duplicates;
    all.releases += result.releases;
  }
  // What is to be survived has happened, and often.
  for (const uint64_t count :
       {all.deaths, all.pauses, all.restarts, all.checkpoints, all.duplicates, all.releases}) {
    EXPECT_GT(count, Seeds());
  }
  EXPECT_GT(all.resumes, Seeds() / 10);
}

// A failing seed is only worth something if it fails again.
TEST(VirtualJob, IsAFunctionOfItsSeed) {
  for (uint64_t seed : {3, 4}) {
    VirtualJobOptions options;
    options.seed = seed;
    const VirtualJobResult a = RunVirtualJob(options), b = RunVirtualJob(options);
    EXPECT_EQ(a.took, b.took);
    EXPECT_EQ(a.messages, b.messages);
    EXPECT_EQ(a.duplicates, b.duplicates);
  }
}

TEST(VirtualJob, WorksOnOneServerAndOneWorker) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    VirtualJobOptions options;
    options.seed = seed;
    options.servers = options.workers = options.partitions = 1;
    EXPECT_EQ(RunVirtualJob(options).mistake, "") << "seed " << seed;
  }
}

TEST(VirtualJob, WorksOnManyWorkersAndPartitions) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    VirtualJobOptions options;
    options.seed = seed;
    options.workers = 16;
    options.servers = 5;
    options.slices = 40;
    options.partitions = 7;
    EXPECT_EQ(RunVirtualJob(options).mistake, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace leat::protocol::testing
