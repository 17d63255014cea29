#include "protocol/slices/server/job_slices.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "compute/optim/init.h"
#include "compute/optim/moments.h"

namespace leat::protocol {

// ---- rules

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

// ---- slices

JobSlices::JobSlices(ServerConfig config) : config_(std::move(config)) {
  for (const auto& variable : config_.table.variables) {
    const auto rule = optim::RuleFor(config_.optimizer, variable);
    rules_.push_back({rule, static_cast<uint32_t>(optim::SlotNames(rule).size()),
                      optim::MeanRuleFor(config_.strategy.sum, config_.strategy.full_run, variable.role),
                      optim::NeedsWholeVariables(rule) || variable.role == optim::VariableRole::kMoments,
                      variable.role});
  }
}

std::optional<uint64_t> JobSlices::BytesOf(SliceId id) const {
  if (id.value >= size()) return std::nullopt;
  return MemoryBytes(ElementsOf(id), RuleOf(id).slots);
}

Slice JobSlices::InMemory(SliceId id, Buffer memory) const {
  Slice slice;
  slice.id = id;
  slice.slots = RuleOf(id).slots;
  slice.elements = ElementsOf(id);
  slice.memory = std::move(memory);
  return slice;
}

Status JobSlices::Fits(const Slice& slice) const {
  const SliceSpec& spec = config_.table.slices[slice.id.value];
  const uint32_t slots = RuleOf(slice.id).slots;
  if (slice.elements == spec.elements() && slice.slots == slots &&
      (config_.modelled || slice.memory.size() >= MemoryBytes(slice.elements, slots)) &&
      slice.ledger.partitions().size() == start_.size()) {
    return {};
  }
  return Status(Code::kDataLoss, "slice " + ToString(slice.id) + " has " + std::to_string(slice.elements) +
                                     " elements, " + std::to_string(slice.slots) + " slots and " +
                                     std::to_string(slice.ledger.partitions().size()) +
                                     " partitions; the job has " + std::to_string(spec.elements()) + ", " +
                                     std::to_string(slots) + " and " + std::to_string(start_.size()));
}

void JobSlices::SetStart(const std::vector<Position>& start) {
  if (!start.empty()) start_ = start;
}

void JobSlices::MoveToNewMemory(Slice* slice) const {
  const Buffer old = std::exchange(slice->memory, NewMemory(slice->memory.size()));
  std::memcpy(slice->memory.data(), old.data(), old.size());
}

std::shared_ptr<Slice> JobSlices::Make(const SliceOrder& order) const {
  const SliceSpec& spec = config_.table.slices[order.slice.value];
  const optim::VariableSpec& variable = config_.table.variables[spec.variable];
  auto slice = std::make_shared<Slice>();
  slice->id = order.slice;
  slice->incarnation = order.incarnation;
  const SliceRule& rule = RuleOf(order.slice);
  slice->slots = rule.slots;
  slice->elements = spec.elements();
  slice->ledger = Ledger(start_);
  if (config_.modelled) return slice;
  slice->memory = NewMemory(MemoryBytes(slice->elements, rule.slots));
  optim::Initialise(variable.init, config_.table.seed, variable.name, spec.begin, slice->values());
  for (uint32_t i = 0; i < rule.slots; ++i) {
    std::ranges::fill(slice->slot(i), optim::InitialSlot(rule.optimizer, i));
  }
  return slice;
}

}  // namespace leat::protocol
