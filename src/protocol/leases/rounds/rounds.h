// Rounds of stepped strategies: splits of equal length that are trained side by side, one per lane.
//
// A pure function of the stream, its cursors and the leftovers. For a sealed stream the sequence of rounds is
// therefore independent of timing and the number of workers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "protocol/cut.h"
#include "protocol/records/journal.h"

namespace leat::protocol {

// Late runs of a cut: they missed their step in a former round.
struct Leftover {
  Cut cut;
  RunSet runs;
};

// The material for a round.
struct RoundInput {
  struct Partition {
    Position at;  // the next cut begins here
    const Passes* passes = nullptr;
    uint64_t end = 0;
    bool sealed = false;
    bool overdue = false;  // not sealed: the available events have waited long enough to be cut short
  };
  std::vector<Leftover> left;         // in the order of use
  std::vector<Partition> partitions;  // partitions of the stream, by number
  bool drain = false;                 // use the rest of a live stream, although it makes no full round
};

// The round that begins with `first_step`. It has as many lanes as `strategy`, each with the runs of a full
// split or, if not all lanes can be full, the largest equal number. Leftovers come first, then the least
// advanced partition. Material for less than one run per lane makes a round of one step with fewer lanes.
// None if there is nothing, or if a live stream should be waited for.
std::optional<RoundMade> MakeRound(const StrategyConfig& strategy, const CutRules& rules, uint64_t first_step,
                                   const RoundInput& material);

}  // namespace leat::protocol
