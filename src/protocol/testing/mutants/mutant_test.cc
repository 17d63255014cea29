// Linked with one of the checks taken out: the property of virtual_job_test must break, or it proves nothing.
#include <gtest/gtest.h>

#include <string>

#include "protocol/testing/virtual_job.h"

namespace leat::protocol::testing {
namespace {

TEST(Mutant, IsFound) {
  constexpr uint64_t kSeeds = 400;
  std::string mistake;
  for (uint64_t seed = 1; mistake.empty() && seed <= kSeeds; ++seed) {
    mistake = RunVirtualJob(Swarm(seed)).mistake;
  }
  EXPECT_NE(mistake, "") << "without the check every event counts exactly once as well, in " << kSeeds
                         << " runs";
}

}  // namespace
}  // namespace leat::protocol::testing
