// Rounds of stepped strategies: splits that are trained side by side, one for each lane, as long as each
// other.
//
// A pure function of what the stream holds, where its partitions have been cut so far, and what is left over:
// for a sealed stream the sequence of rounds is the same whoever asks for them, when, and for how many
// workers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/coordinator/coordinator.h"
#include "protocol/cut.h"

namespace leat::protocol {

// Runs of a cut that had their turn in a former round and were not in time.
struct Leftover {
  Cut cut;
  RunSet runs;
};

// What there is to make a round of.
struct RoundInput {
  struct Partition {
    Position at;         // the next cut follows this
    uint64_t first = 0;  // every pass starts here
    uint64_t end = 0;
    bool sealed = false;
    bool overdue = false;  // not sealed: what is there has waited so long that it may be cut short
  };
  std::vector<Leftover> left;         // those to come first first
  std::vector<Partition> partitions;  // of the stream, by number
  bool drain = false;                 // of a stream that is not sealed, too, though it makes no full round
};

// The round that begins with `first_step`: as many lanes as `strategy` has, of as many runs each as a full
// split has, or, when not all lanes can have so many, as they can. Left-overs come first, then the least
// advanced partition. What is there for less than one run in each lane makes a round of one step with fewer
// lanes. Nothing when there is nothing, or when a stream that is not sealed is better waited for.
std::optional<RoundMade> MakeRound(const StrategyConfig& strategy, const CutRules& rules, uint64_t first_step,
                                   const RoundInput& material);

}  // namespace leat::protocol
