#include "protocol/testing/virtual_job.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace leat::protocol::testing {
namespace {

uint64_t Seeds(uint64_t fallback) {
  const char* more = std::getenv("LEAT_SEEDS");
  return more ? std::strtoull(more, nullptr, 10) : fallback;
}

TEST(VirtualJob, CountsEveryEventOnceWhenNothingGoesWrong) {
  VirtualJobOptions options;
  options.faults = NoFaults();
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    options.seed = seed;
    const VirtualJobResult result = RunVirtualJob(options);
    EXPECT_EQ(result.mistake, "") << "seed " << seed;
  }
}

TEST(VirtualJob, CountsEveryEventOnceWhateverGoesWrong) {
  VirtualJobResult all;
  const uint64_t seeds = Seeds(200);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    VirtualJobOptions options;
    options.seed = seed;
    const VirtualJobResult result = RunVirtualJob(options);
    EXPECT_EQ(result.mistake, "") << "seed " << seed;
    all.took += result.took;
    all.messages += result.messages;
    all.deaths += result.deaths;
    all.pauses += result.pauses;
    all.restarts += result.restarts;
    all.resumes += result.resumes;
    all.checkpoints += result.checkpoints;
    all.duplicates += result.duplicates;
    all.releases += result.releases;
  }
  std::printf("%llu seeds: %.0f virtual s, %llu messages\n", static_cast<unsigned long long>(seeds), Seconds(all.took), (unsigned long long)all.messages);
  std::printf("deaths %lu pauses %lu restarts %lu resumes %lu checkpoints %lu duplicates %lu releases %lu\n", all.deaths, all.pauses, all.restarts, all.resumes, all.checkpoints, all.duplicates, all.releases);
}

}  // namespace
}  // namespace leat::protocol::testing
