#include "protocol/push/step_updates.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace leat::protocol {

namespace {

// Elements of a step that are added and updated while they are in the innermost cache.
constexpr uint64_t kChunk = 4096;
// The minimum size of updates that are spread over threads: waking them costs as much as some ten thousand
// elements.
constexpr uint64_t kWorthSharing = uint64_t{1} << 17;

void CopyFloats(std::span<float> to, std::span<const float> from) {
  std::memcpy(to.data(), from.data(), from.size_bytes());
}

// Pure: other updates may run at the same time.
void RunUpdate(const StepUpdate& update) {
  const SliceRule& rule = *update.rule;
  const uint64_t elements = update.elements, most = rule.whole ? elements : std::min(elements, kChunk);
  std::array<float, kChunk> chunk;
  LEAT_CHECK(rule.slots <= optim::kMaxSlots);
  const std::span<float> to = FloatsIn(update.to, elements * (1 + rule.slots));
  const std::span<float> from = FloatsIn(update.from, elements * (1 + rule.slots));
  for (uint64_t begin = 0; begin < elements; begin += most) {
    const uint64_t n = std::min(most, elements - begin);
    const std::span<float> sum =
        update.sum ? FloatsIn(update.sum, elements).subspan(begin, n) : std::span(chunk).first(n);
    for (size_t i = 0; i < update.addends.size(); ++i) {
      const auto& addend = update.addends[i];
      rule.Add(i == 0 && !update.has_sum, sum, addend.numbers.subspan(begin, n), addend.weight);
    }
    if (!rule.moments()) optim::Scale(sum, update.scale);
    if (update.previous)
      CopyFloats(FloatsIn(update.previous, elements).subspan(begin, n), from.subspan(begin, n));
    std::array<std::span<float>, 1 + optim::kMaxSlots> at;  // values, slot 0, …
    for (uint32_t i = 0; i <= rule.slots; ++i) {
      at[i] = to.subspan(i * elements + begin, n);
      if (!update.previous) CopyFloats(at[i], from.subspan(i * elements + begin, n));
    }
    rule.Apply(at[0], sum, std::span(at).subspan(1, rule.slots), update.version, update.rate);
  }
}

}  // namespace

Buffer StepUpdates::TakeMemory(uint64_t bytes) {
  auto& buffers = spare_[bytes];
  if (buffers.empty()) return job_.NewMemory(bytes);
  Buffer buffer = std::move(buffers.back());
  buffers.pop_back();
  return buffer;
}

void StepUpdates::GiveBuffer(Buffer buffer) {
  if (buffer && !buffer.shared()) spare_[buffer.size()].push_back(std::move(buffer));
}

void StepUpdates::Add(StepUpdate&& update) {
  if (!deferring_) {
    RunUpdate(update);
    return Give(&update);
  }
  *update.updating = true;
  updates_.push_back(std::move(update));
}

void StepUpdates::RunAll() {
  uint64_t elements = 0;
  for (const StepUpdate& update : updates_) elements += update.elements;
  const auto& run_parts = job_.config().run_parts;
  if (run_parts && elements >= kWorthSharing && updates_.size() > 1) {
    run_parts(updates_.size(), [this](size_t i) { RunUpdate(updates_[i]); });
  } else {
    for (const StepUpdate& update : updates_) RunUpdate(update);
  }
  for (StepUpdate& update : updates_) {
    *update.updating = false;
    Give(&update);
  }
  updates_.clear();
}

void StepUpdates::Give(StepUpdate* update) {
  GiveBuffer(std::move(update->sum));
  for (auto& addend : update->addends) GiveBuffer(std::move(addend.memory));
}

}  // namespace leat::protocol
