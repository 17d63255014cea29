#include "protocol/slices/server/slice_rules.h"

#include <algorithm>
#include <bit>

#include "compute/optim/moments.h"

namespace leat::protocol {

std::vector<SliceRule> RulesFor(const ServerConfig& config) {
  std::vector<SliceRule> rules;
  for (const auto& variable : config.table.variables) {
    const auto rule = optim::RuleFor(config.optimizer, variable);
    rules.push_back({rule, static_cast<uint32_t>(optim::SlotNames(rule).size()),
                     optim::MeanRuleFor(config.strategy.sum, config.strategy.full_run, variable.role),
                     optim::NeedsWholeVariables(rule) || variable.role == optim::VariableRole::kMoments,
                     variable.role});
  }
  return rules;
}

void SliceRule::Add(bool first, std::span<float> sum, std::span<const float> pushed, float weight) const {
  if (!moments()) return (first ? optim::SetWeighted : optim::AddWeighted)(sum, pushed, weight);
  if (!first) return optim::MergeMoments(sum, pushed);
  std::ranges::copy(pushed, sum.begin());
}

void SliceRule::Apply(std::span<float> values, std::span<const float> pushed,
                      std::span<const std::span<float>> slot_spans, uint64_t version, float rate) const {
  if (moments()) return optim::MergeMoments(values, pushed);
  optim::Apply(optimizer, values, pushed, slot_spans, version, rate);
}

bool FitsStrategy(const StepLane& step_lane, const StrategyConfig& strategy) {
  const auto& [step, lane, width, needed] = step_lane;
  // How many there are at present, only the coordinator knows.
  if (strategy.auto_lanes) return step_lane.valid() && width - needed <= strategy.backup;
  return width > 0 && width <= strategy.total_lanes() && needed == std::min(strategy.lanes, width);
}

bool FitsStrategy(const DecidedStep& decided, const StrategyConfig& strategy) {
  const uint32_t width = decided.width;
  const StepLane step_lane{decided.step, 0, width, decided.needed};
  if (!FitsStrategy(step_lane, strategy) || decided.needed == width ||
      decided.counted.size() != (width + 63) / 64)
    return false;
  uint32_t lanes = 0;
  for (const uint64_t word : decided.counted) lanes += static_cast<uint32_t>(std::popcount(word));
  return lanes == decided.needed && (width % 64 == 0 || decided.counted.back() >> (width % 64) == 0);
}

}  // namespace leat::protocol
