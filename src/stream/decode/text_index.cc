#include "stream/decode/text_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/rng.h"

namespace leat::stream {
namespace {

// More slots than this are not worth their memory.
constexpr size_t kMaxTexts = 256;
constexpr int kTries = 200;

}  // namespace

TextIndex::TextIndex(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (size_t i = 0; i < texts_.size(); ++i) places_.emplace(texts_[i], static_cast<int>(i));
  if (texts_.empty() || texts_.size() > kMaxTexts) return;
  // With so many slots for each text, one of the first multipliers fits.
  const size_t size = std::bit_ceil(4 * texts_.size());
  shift_ = 64 - std::countr_zero(size);
  Rng rng(1);
  for (int i = 0; i < kTries; ++i) {
    slots_.assign(size, -1);
    multiplier_ = rng() | 1;
    if (FillSlots()) return;
  }
  slots_.clear();
}

bool TextIndex::FillSlots() {
  for (const auto& [text, place] : places_) {
    int32_t& slot = slots_[Slot(text)];
    if (slot >= 0) return false;
    slot = place;
  }
  return true;
}

int TextIndex::FindByHash(std::string_view text) const {
  const auto found = places_.find(text);
  return found == places_.end() ? -1 : found->second;
}

}  // namespace leat::stream
