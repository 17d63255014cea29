// Linked without one of the checks. The property of swarm_test must then fail, by a wrong count or by an
// invariant named here, otherwise the test proves nothing. A job that merely stops, or throws, does not
// count.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "lab/sim/testing.h"
#include "protocol/guards.h"

namespace leat::sim {
namespace {

namespace guards = protocol::guards;
using Kind = protocol::StrategyKind;
using Strategy = protocol::StrategyConfig;

const bool kNoLedger = !guards::AlreadyApplied(true);
const bool kNoIncarnation = guards::SameIncarnation(Incarnation(1), Incarnation(2));
const bool kNoGroup = guards::SameGroup(1, 2);
const bool kNoMember = guards::IsMember(false);
const bool kNoSeal = guards::Unsealed(true);
const bool kNoTerm = guards::CurrentTerm(1, 2);
const bool kNoReplica = guards::OnReplica(false);
const bool kNoAgreement = guards::Agreed(false);
const bool kNoMajority = guards::Majority(1, 2);

// By their names in protocol/guards.cc, sorted.
const std::vector<std::string> kTested = {"Agreed",    "AlreadyApplied",  "CurrentTerm",
                                          "IsMember",  "Majority",        "OnReplica",
                                          "SameGroup", "SameIncarnation", "Unsealed"};

struct MutantSearch {
  std::string name;
  std::function<ClusterResult(uint64_t seed)> run;
  // At least one of them must be violated.
  std::vector<Invariant> found_by;
  // Where the search begins, outside the long tier: a little before a seed that finds it. A change of the
  // protocol may move that seed, and then the test takes longer; it prints the new one.
  uint64_t first_seed = 1;
};

MutantSearch InSwarm(const Strategy& strategy, std::vector<Invariant> found_by, uint32_t replicas = 1,
                     uint64_t first_seed = 1) {
  std::string name(protocol::Name(strategy.kind));
  if (strategy.backup > 0) name += " with a backup";
  if (strategy.deterministic) name += ", deterministic";
  return {std::move(name),
          [strategy, replicas](uint64_t seed) {
            return RunSwarm({.seed = seed, .strategy = strategy, .replicas = replicas});
          },
          std::move(found_by), first_seed};
}

// The jobs of `leat simulate --faults`.
MutantSearch InRandomJobs(std::vector<Invariant> found_by, uint64_t first_seed = 1) {
  return {"random jobs", [](uint64_t seed) { return RunFaultJob(seed); }, std::move(found_by), first_seed};
}

MutantSearch WithStandbys(const Strategy& strategy) {
  return {std::string(protocol::Name(strategy.kind)) + " with standbys",
          [strategy](uint64_t seed) {
            return RunWithStandbys({.seed = seed, .strategy = strategy, .standbys = 1 + seed % 2});
          },
          {Invariant::kSuccessionOneCoordinator}};
}

// The jobs whose exactly-once property depends on the check that this program lacks.
std::vector<MutantSearch> Concerned() {
  if (kNoGroup) {
    return {InSwarm({.kind = Kind::kAllReduce, .lanes = 4}, {Invariant::kAllReduceOneGroup}),
            InSwarm({.kind = Kind::kAllReduce, .lanes = 4, .deterministic = true},
                    {Invariant::kAllReduceOneGroup})};
  }
  if (kNoAgreement || kNoMajority) {
    return {WithStandbys({.kind = Kind::kAsync}), WithStandbys({.kind = Kind::kSync, .lanes = 4}),
            WithStandbys({.kind = Kind::kAllReduce, .lanes = 4})};
  }
  if (kNoTerm) {
    return {InSwarm({.kind = Kind::kAsync}, {Invariant::kSuccessionOneCoordinator}, 1, 330),
            InSwarm({.kind = Kind::kSync, .lanes = 4}, {Invariant::kSuccessionOneCoordinator}, 1, 1160),
            InSwarm({.kind = Kind::kAllReduce, .lanes = 4}, {Invariant::kSuccessionOneCoordinator}, 1, 110),
            InRandomJobs({Invariant::kSuccessionOneCoordinator}, 360)};
  }
  if (kNoSeal) {
    return {InSwarm({.kind = Kind::kAsync}, {Invariant::kSuccessionOneCoordinator}),
            InSwarm({.kind = Kind::kSync, .lanes = 4}, {Invariant::kSuccessionOneCoordinator}),
            InSwarm({.kind = Kind::kAllReduce, .lanes = 4}, {Invariant::kSuccessionOneCoordinator}),
            InRandomJobs({Invariant::kSuccessionOneCoordinator})};
  }
  if (kNoReplica) {
    return {
        InSwarm({.kind = Kind::kAsync}, {Invariant::kSlicesTold}, 2),
        InSwarm({.kind = Kind::kSync, .lanes = 4}, {Invariant::kSlicesTold, Invariant::kPushValues}, 2, 530)};
  }
  if (kNoMember)
    return {{"lanes: auto", RunWithEvictedWorker, {Invariant::kPushValues, Invariant::kJobCount}}};
  std::vector<Invariant> stepped = {Invariant::kCheckpointsWhole, Invariant::kLeasesWatermark};
  std::vector<Invariant> not_stepped = stepped;
  if (kNoLedger) {
    not_stepped = {Invariant::kPushAppliedOnce};
    stepped = {Invariant::kJobCount, Invariant::kPushValues};
  }
  std::vector<Invariant> either = not_stepped;
  either.insert(either.end(), stepped.begin(), stepped.end());
  const auto from = [](uint64_t first_seed) { return kNoIncarnation ? first_seed : 1; };
  return {InRandomJobs(either, from(280)),
          InSwarm({.kind = Kind::kAsync}, not_stepped, 1, from(550)),
          InSwarm({.kind = Kind::kDownpour, .n_push = 3, .n_fetch = 2}, not_stepped, 1, from(210)),
          InSwarm({.kind = Kind::kSync, .lanes = 4}, stepped, 1, from(970)),
          InSwarm({.kind = Kind::kSync, .lanes = 4, .backup = 1}, stepped, 1, from(960)),
          InSwarm({.kind = Kind::kSsp, .lanes = 4, .staleness = 3}, stepped, 1, from(360)),
          InSwarm({.kind = Kind::kAveraging, .lanes = 4, .period = 3}, stepped)};
}

std::string List(const std::map<Invariant, int>& violated) {
  std::string list;
  for (const auto& [invariant, times] : violated)
    list += "\n  " + std::to_string(times) + " times " + std::string(fields::NameOf(invariant));
  return list;
}

TEST(Mutant, LacksOneCheck) {
  EXPECT_EQ(kNoLedger + kNoIncarnation + kNoGroup + kNoMember + kNoSeal + kNoTerm + kNoReplica +
                kNoAgreement + kNoMajority,
            1);
}

TEST(Mutant, EveryGuardIsTested) {
  std::vector<std::string> guards;
  std::istringstream names(LEAT_GUARDS);
  for (std::string name; names >> name;) guards.push_back(name);
  std::ranges::sort(guards);
  EXPECT_EQ(guards, kTested);
}

TEST(Mutant, IsFound) {
  constexpr uint64_t kSeeds = 2000;  // the group check takes hundreds
  for (const auto& [name, run, found_by, first_seed] : Concerned()) {
    bool found = false;
    std::map<Invariant, int> others;
    const uint64_t first = LongTier() ? 1 : first_seed;
    for (uint64_t seed = first; !found && seed < first + kSeeds; ++seed) {
      const ClusterResult result = run(seed);
      if (!result.violation) continue;
      found = std::ranges::find(found_by, result.violation->invariant) != found_by.end();
      if (!found) ++others[result.violation->invariant];
      if (found) std::cout << name << ", seed " << seed << ": " << *result.violation << "\n";
    }
    EXPECT_TRUE(found) << name << ": in " << kSeeds << " runs without the check, \""
                       << fields::NameOf(found_by.front())
                       << "\" was never violated; others were:" << List(others);
  }
}

}  // namespace
}  // namespace leat::sim
