// Linked without one of the checks. The property of swarm_test must then fail, by a wrong count or by an
// invariant named here, otherwise the test proves nothing. A job that merely stops, or throws, does not
// count.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "protocol/guards.h"
#include "sim/swarm.h"

namespace leat::sim {
namespace {

namespace guards = protocol::guards;
using Kind = protocol::StrategyKind;
using Strategy = protocol::StrategyConfig;

const bool kNoLedger = !guards::AlreadyApplied(true);
const bool kNoIncarnation = guards::SameIncarnation(Incarnation(1), Incarnation(2));
const bool kNoGroup = guards::SameGroup(1, 2);
const bool kNoSeal = guards::Unsealed(true);
const bool kNoTerm = guards::CurrentTerm(1, 2);

// By their sources, protocol/guards/guard_*.cc.
const std::vector<std::string> kTested = {"already_applied", "current_term", "same_group", "same_incarnation",
                                          "unsealed"};
// No job shows a failure without them yet. Generation check: a worker outside the view does no harm while
// ledgers and incarnations are checked; elastic membership is to provide such a job.
const std::vector<std::string> kUntested = {"member"};

struct Concern {
  Strategy strategy;
  // At least one of them must be violated.
  std::vector<Invariant> found_by;
};

// The strategies whose exactly-once property depends on the check that this program lacks.
std::vector<Concern> Concerned() {
  if (kNoGroup) {
    return {{{.kind = Kind::kAllReduce, .lanes = 4}, {Invariant::kOneGroup}},
            {{.kind = Kind::kAllReduce, .lanes = 4, .deterministic = true}, {Invariant::kOneGroup}}};
  }
  if (kNoSeal || kNoTerm) {
    return {{{.kind = Kind::kAsync}, {Invariant::kOneCoordinator}},
            {{.kind = Kind::kSync, .lanes = 4}, {Invariant::kOneCoordinator}},
            {{.kind = Kind::kAllReduce, .lanes = 4}, {Invariant::kOneCoordinator}}};
  }
  std::vector<Invariant> stepped = {Invariant::kCheckpoint, Invariant::kWatermark};
  std::vector<Invariant> not_stepped = stepped;
  if (kNoLedger) {
    not_stepped = {Invariant::kAppliedOnce};
    stepped = {Invariant::kCount, Invariant::kValues};
  }
  return {{{.kind = Kind::kAsync}, not_stepped},
          {{.kind = Kind::kDownpour, .n_push = 3, .n_fetch = 2}, not_stepped},
          {{.kind = Kind::kSync, .lanes = 4}, stepped},
          {{.kind = Kind::kSync, .lanes = 4, .backup = 1}, stepped},
          {{.kind = Kind::kSsp, .lanes = 4, .staleness = 3}, stepped},
          {{.kind = Kind::kAveraging, .lanes = 4, .period = 3}, stepped}};
}

std::string Describe(const Strategy& strategy) {
  return std::string(protocol::Name(strategy.kind)) + (strategy.backup > 0 ? " with a backup" : "") +
         (strategy.deterministic ? ", deterministic" : "");
}

std::string List(const std::map<Invariant, int>& violated) {
  std::string list;
  for (const auto& [invariant, times] : violated)
    list += "\n  " + std::to_string(times) + " times " + Name(invariant);
  return list;
}

TEST(Mutant, LacksOneCheck) {
  EXPECT_EQ(kNoLedger + kNoIncarnation + kNoGroup + kNoSeal + kNoTerm, 1);
}

TEST(Mutant, EveryGuardIsTestedOrListedAsUntested) {
  std::vector<std::string> guards;
  std::istringstream names(LEAT_GUARDS);
  for (std::string name; names >> name;) guards.push_back(name);
  std::vector<std::string> listed = kTested;
  listed.insert(listed.end(), kUntested.begin(), kUntested.end());
  std::ranges::sort(guards);
  std::ranges::sort(listed);
  EXPECT_EQ(guards, listed);
  EXPECT_TRUE(guards::IsMember(true) && !guards::IsMember(false)) << "it stays in all of these programs";
}

TEST(Mutant, IsFound) {
  constexpr uint64_t kSeeds = 2000;  // the group check takes hundreds
  for (const auto& [strategy, found_by] : Concerned()) {
    bool found = false;
    std::map<Invariant, int> others;
    for (uint64_t seed = 1; !found && seed <= kSeeds; ++seed) {
      const ClusterResult result = RunSwarm({.seed = seed, .strategy = strategy});
      if (!result.violation) continue;
      found = std::ranges::find(found_by, result.violation->invariant) != found_by.end();
      if (!found) ++others[result.violation->invariant];
      if (found) std::cout << Describe(strategy) << ", seed " << seed << ": " << *result.violation << "\n";
    }
    EXPECT_TRUE(found) << Describe(strategy) << ": in " << kSeeds << " runs without the check, \""
                       << Name(found_by.front()) << "\" was never violated; others were:" << List(others);
  }
}

}  // namespace
}  // namespace leat::sim
