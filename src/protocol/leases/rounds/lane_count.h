// How many lanes the steps have.
//
// With `lanes: auto` the number follows the workers that take lanes, as soon as there have been as many for
// kStable: a worker that is replaced by then changes nothing. It holds from a step on, and is journaled with
// it, so that steps that are trained again have as many lanes as before, unless it changes before they are
// begun again.
//
// Pure state, part of the coordinator. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "protocol/records/journal.h"

namespace leat::protocol {

class LaneCount {
 public:
  static constexpr Duration kStable = std::chrono::seconds(3);

  explicit LaneCount(const StrategyConfig& strategy) : strategy_(strategy) {}

  // Records are in the order of the journal: one replaces those from its step on.
  void Set(const LanesSet& set);
  // Without backup lanes.
  uint32_t At(uint64_t step) const;
  // The factor on the learning rate for scale_learning_rate: relative to the lanes that the job was created
  // with.
  float RateAt(uint64_t step) const;
  // Forgets what is before a step that no slice will fall behind.
  void DropBefore(uint64_t step);

  // There are `workers` now, and all slices have made `step` steps. Call it often.
  void Observe(Time now, uint32_t workers, uint64_t step);
  // The number that the rounds from `step` on are to have, if it is not known yet, or another one.
  std::optional<LanesSet> Next(Time now, uint64_t step) const;
  // Steps per second since there are as many workers as now.
  double Pace(Time now, uint64_t step) const;

 private:
  struct Seen {
    uint32_t workers = 0;
    Time since{0};
    uint64_t step = 0;  // then
  };

  StrategyConfig strategy_;
  std::map<uint64_t, uint32_t> lanes_;  // by first step
  std::optional<Seen> seen_;
};

}  // namespace leat::protocol
