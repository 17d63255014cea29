#include "protocol/allreduce/training_state.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "compute/optim/moments.h"

namespace leat::protocol {

namespace {

// Elements scaled and updated at a time.
constexpr uint64_t kCheckedChunk = 4096;

}  // namespace

std::span<float> TrainingState::Part::slot(uint32_t i) const {
  return {reinterpret_cast<float*>(memory.data()) + i * elements, elements};
}

TrainingState::TrainingState(const SliceTable& table, const optim::OptimizerConfig& optimizer,
                             const StrategyConfig& strategy, Parameters* parameters)
    : table_(table), parameters_(parameters) {
  for (const SliceSpec& spec : table_.slices) {
    const optim::VariableSpec& variable = table_.variables[spec.variable];
    Part part{.rule = optim::RuleFor(optimizer, variable),
              .mean = optim::MeanRuleFor(strategy.sum, strategy.full_run, variable.role)};
    part.whole = optim::NeedsWholeVariables(part.rule);
    part.role = variable.role;
    part.slots = static_cast<uint32_t>(optim::SlotNames(part.rule).size());
    part.elements = spec.elements();
    LEAT_CHECK(part.slots <= optim::kMaxSlots);
    if (parameters_ != nullptr) part.memory = Buffer(part.elements * part.slots * sizeof(float));
    floats_ += part.elements * (1 + part.slots);
    slices_.push_back(std::move(part));
  }
}

void TrainingState::Make(const std::vector<Position>& start) {
  header_ = {0, 0, Ledger(start)};
  if (parameters_ == nullptr) return;
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    const optim::VariableSpec& variable = table_.variables[table_.slices[i].variable];
    optim::Initialise(variable.init, table_.seed, variable.name, table_.slices[i].begin,
                      parameters_->values(SliceId(i)));
    for (uint32_t s = 0; s < slices_[i].slots; ++s) {
      std::ranges::fill(slices_[i].slot(s), optim::InitialSlot(slices_[i].rule, s));
    }
  }
}

Status TrainingState::Take(const std::vector<Slice>& slices, size_t partitions) {
  LEAT_CHECK(slices.size() == slices_.size());
  for (uint32_t i = 0; i < slices.size(); ++i) {
    const Slice& slice = slices[i];
    const Part& part = slices_[i];
    const bool whole =
        parameters_ == nullptr || slice.memory.size() >= part.elements * (1 + part.slots) * sizeof(float);
    if (slice.id != SliceId(i) || slice.elements != part.elements || slice.slots != part.slots || !whole ||
        slice.ledger.partitions().size() != partitions) {
      return Status(Code::kDataLoss, "slice " + std::to_string(i) + " has " + std::to_string(slice.elements) +
                                         " elements, " + std::to_string(slice.slots) + " slots and " +
                                         std::to_string(slice.ledger.partitions().size()) +
                                         " partitions; the job has " + std::to_string(part.elements) + ", " +
                                         std::to_string(part.slots) + " and " + std::to_string(partitions));
    }
    if (slice.version != slices[0].version || slice.ledger != slices[0].ledger) {
      return Status(Code::kFailedPrecondition,
                    "slice " + std::to_string(i) + " is at another step than slice 0 (" +
                        std::to_string(slice.version) + ", " + std::to_string(slices[0].version) +
                        "): a checkpoint that servers have made of pushes one by one cannot go on without "
                        "them; resume it with the strategy that it was made by");
    }
  }
  header_ = {slices[0].version, slices[0].events, slices[0].ledger};
  if (parameters_ == nullptr) return Status();
  for (uint32_t i = 0; i < slices.size(); ++i) {
    std::ranges::copy(slices[i].values(), parameters_->values(SliceId(i)).begin());
    for (uint32_t s = 0; s < slices_[i].slots; ++s) {
      std::ranges::copy(slices[i].slot(s), slices_[i].slot(s).begin());
    }
  }
  return Status();
}

std::vector<std::span<const float>> TrainingState::Memory() const {
  std::vector<std::span<const float>> spans;
  if (parameters_ == nullptr) return spans;
  for (uint32_t i = 0; i < slices_.size(); ++i) spans.emplace_back(parameters_->values(SliceId(i)));
  for (const Part& part : slices_) {
    for (uint32_t s = 0; s < part.slots; ++s) spans.emplace_back(part.slot(s));
  }
  return spans;
}

Status TrainingState::Adopt(Header header, std::span<const float> memory, size_t partitions) {
  if (memory.size() != (parameters_ == nullptr ? 0 : floats_) ||
      header.ledger.partitions().size() != partitions) {
    return Status(Code::kDataLoss, "a state of " + std::to_string(memory.size()) + " numbers and " +
                                       std::to_string(header.ledger.partitions().size()) +
                                       " partitions; the job's has " + std::to_string(floats_) + " and " +
                                       std::to_string(partitions));
  }
  header_ = std::move(header);
  size_t at = 0;
  const auto take = [&](std::span<float> out) {
    std::ranges::copy(memory.subspan(at, out.size()), out.begin());
    at += out.size();
  };
  if (parameters_ == nullptr) return Status();
  for (uint32_t i = 0; i < slices_.size(); ++i) take(parameters_->values(SliceId(i)));
  for (const Part& part : slices_) {
    for (uint32_t s = 0; s < part.slots; ++s) take(part.slot(s));
  }
  return Status();
}

void TrainingState::Apply(uint64_t events, const GradientTerms& terms, float rate,
                          std::span<const float> moments) {
  if (parameters_ == nullptr) return;
  for (uint32_t i = 0; i < slices_.size(); ++i) {
    const Part& part = slices_[i];
    if (part.role == optim::VariableRole::kMoments) {
      optim::MergeMoments(parameters_->values(SliceId(i)), moments);
      continue;
    }
    const float scale = part.mean.scale(events);
    // Scaled into a local chunk and applied while in the cache. The gradients' cache lines may be shared with
    // other processes, which makes writing them slow.
    std::array<float, kCheckedChunk> chunk;
    const uint64_t most = part.whole ? part.elements : std::min(part.elements, kCheckedChunk);
    for (uint64_t begin = 0; begin < part.elements; begin += most) {
      const uint64_t n = std::min(most, part.elements - begin);
      std::span<float> gradient = parameters_->gradients(SliceId(i)).subspan(begin, n);
      if (!terms.empty()) {
        const std::span<float> made = part.whole ? WholeRoom(n) : std::span(chunk).first(n);
        optim::SetSum(made, terms, static_cast<size_t>(gradient.data() - parameters_->all_gradients().data()),
                      scale);
        gradient = made;
      } else if (part.whole) {
        optim::Scale(gradient, scale);
      } else if (scale != 1.0f) {
        const std::span<float> scaled = std::span(chunk).first(n);
        optim::SetWeighted(scaled, gradient, scale);
        gradient = scaled;
      }
      std::array<std::span<float>, optim::kMaxSlots> slots;
      for (uint32_t s = 0; s < part.slots; ++s) slots[s] = part.slot(s).subspan(begin, n);
      optim::Apply(part.rule, parameters_->values(SliceId(i)).subspan(begin, n), gradient,
                   std::span(slots).first(part.slots), header_.step + 1,
                   part.role == optim::VariableRole::kTrained ? rate : 1.0f);
    }
  }
}

std::span<float> TrainingState::WholeRoom(uint64_t elements) {
  if (whole_.size() < elements * sizeof(float)) whole_ = Buffer(elements * sizeof(float));
  return {reinterpret_cast<float*>(whole_.data()), elements};
}

uint64_t TrainingState::BytesOf(SliceId id) const {
  const Part& part = slices_[id.value];
  return part.elements * (1 + part.slots) * sizeof(float);
}

std::shared_ptr<const Slice> TrainingState::Copy(SliceId id, Incarnation incarnation,
                                                 const Allocate& allocate) const {
  const Part& part = slices_[id.value];
  auto slice = std::make_shared<Slice>();
  slice->id = id;
  slice->incarnation = incarnation;
  slice->version = header_.step;
  slice->events = header_.events;
  slice->slots = part.slots;
  slice->elements = part.elements;
  slice->ledger = header_.ledger;
  if (parameters_ == nullptr) return slice;
  slice->memory = allocate ? allocate(BytesOf(id)) : Buffer(BytesOf(id));
  std::ranges::copy(parameters_->values(id), slice->values().begin());
  for (uint32_t s = 0; s < part.slots; ++s) std::ranges::copy(part.slot(s), slice->slot(s).begin());
  return slice;
}

}  // namespace leat::protocol
