// Linked with one of the checks taken out: the property of swarm_test must break, or it proves nothing.
#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <vector>

#include "protocol/guards.h"
#include "sim/swarm.h"

namespace leat::sim {
namespace {

namespace guards = protocol::guards;
using Kind = protocol::StrategyKind;
using Strategy = protocol::StrategyConfig;

const bool kNoLedger = !guards::Held(true);
const bool kNoIncarnation = guards::SameLife(Incarnation(1), Incarnation(2));
const bool kNoGroup = guards::SameGroup(1, 2);

// Those for which exactly once rests on the check that this program lacks.
std::vector<Strategy> Concerned() {
  if (kNoGroup) {
    return {{.kind = Kind::kAllReduce, .virtual_workers = 4},
            {.kind = Kind::kAllReduce, .virtual_workers = 4, .deterministic = true}};
  }
  return {{.kind = Kind::kAsync},
          {.kind = Kind::kDownpour, .n_push = 3, .n_fetch = 2},
          {.kind = Kind::kSync, .virtual_workers = 4},
          {.kind = Kind::kSync, .virtual_workers = 4, .backup = 1},
          {.kind = Kind::kSsp, .virtual_workers = 4, .staleness = 3},
          {.kind = Kind::kAveraging, .virtual_workers = 4, .period = 3}};
}

TEST(Mutant, LacksOneCheck) {
  EXPECT_EQ(kNoLedger + kNoIncarnation + kNoGroup, 1);
}

TEST(Mutant, IsFound) {
  constexpr uint64_t kSeeds = 400;
  for (const Strategy& strategy : Concerned()) {
    bool found = false;
    for (uint64_t seed = 1; !found && seed <= kSeeds; ++seed) {
      try {
        const ClusterResult result = RunSwarm({.seed = seed, .strategy = strategy});
        // Who believes what is said of another life of a slice mostly waits for ever for what that has;
        // without the other checks jobs come to their end, and have counted wrong.
        found = !result.mistake.empty() && (result.ended || kNoIncarnation);
      } catch (const std::exception&) {
        found = kNoIncarnation;  // what cannot be with the check
      }
    }
    EXPECT_TRUE(found) << protocol::Name(strategy.kind) << " with " << strategy.backup
                       << " in reserve: without the check every event counts exactly once as well, in "
                       << kSeeds << " runs";
  }
}

}  // namespace
}  // namespace leat::sim
