// Linked with one of the checks taken out: the property of swarm_test must break, or it proves nothing.
#include <gtest/gtest.h>

#include <string>

#include "sim/swarm.h"

namespace leat::sim {
namespace {

TEST(Mutant, IsFound) {
  constexpr uint64_t kSeeds = 400;
  std::string mistake;
  for (uint64_t seed = 1; mistake.empty() && seed <= kSeeds; ++seed) {
    mistake = RunSwarm({.seed = seed}).mistake;
  }
  EXPECT_NE(mistake, "") << "without the check every event counts exactly once as well, in " << kSeeds
                         << " runs";
}

}  // namespace
}  // namespace leat::sim
