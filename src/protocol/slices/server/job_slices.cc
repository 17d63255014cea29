#include "protocol/slices/server/job_slices.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "compute/optim/init.h"

namespace leat::protocol {

JobSlices::JobSlices(ServerConfig config) : config_(std::move(config)), rules_(RulesFor(config_)) {}

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
