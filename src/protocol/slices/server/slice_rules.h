// Rules of a job for the slices of a server: the slots and the update of each variable, and the steps that
// the strategy allows. Pure functions of the job; errors of peers are answers, not checks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compute/optim/mean.h"
#include "protocol/messages_data.h"
#include "protocol/slices/server/server_config.h"

namespace leat::protocol {

// How the slices of one variable are updated.
struct SliceRule {
  optim::OptimizerConfig optimizer;
  uint32_t slots = 0;
  optim::MeanRule mean;
  bool whole = false;  // an update needs all elements at once
  optim::VariableRole role = optim::VariableRole::kTrained;
  bool moments() const { return role == optim::VariableRole::kMoments; }
  // Only what is trained has a learning rate.
  float RateOf(float rate) const { return role == optim::VariableRole::kTrained ? rate : 1.0f; }
  // Adds a lane's push to the sum of those before it; `first`: begins the sum. Moments are merged.
  void Add(bool first, std::span<float> sum, std::span<const float> pushed, float weight) const;
  // `slots` as of optim::Apply.
  void Apply(std::span<float> values, std::span<const float> pushed, std::span<const std::span<float>> slots,
             uint64_t version, float rate) const;
};

std::vector<SliceRule> RulesFor(const ServerConfig& config);  // by variable

// Bytes of the values and slots of a slice.
inline uint64_t MemoryBytes(uint64_t elements, uint32_t slots) {
  return elements * (1 + slots) * sizeof(float);
}

// The strategy has steps of this width.
bool FitsStrategy(const StepLane& step_lane, const StrategyConfig& strategy);
// Backup workers: as many lanes count as the strategy says.
bool FitsStrategy(const DecidedStep& decided, const StrategyConfig& strategy);

}  // namespace leat::protocol
