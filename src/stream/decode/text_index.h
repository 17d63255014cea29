// Finds a text among those of a fixed list, such as the values of a category.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace leat::stream {

// Texts are told apart by their length and three of their characters, if those differ for all of the list:
// one comparison, without a loop that ends somewhere else for each text. Otherwise by a hash of the whole.
// Immutable; thread-safe.
class TextIndex {
 public:
  explicit TextIndex(std::vector<std::string> texts);
  TextIndex() : TextIndex(std::vector<std::string>{}) {}
  TextIndex(const TextIndex&) = delete;
  TextIndex& operator=(const TextIndex&) = delete;

  // The index of the first that is equal, or -1.
  int Find(std::string_view text) const {
    if (slots_.empty()) return FindByHash(text);
    const int place = slots_[Slot(text)];
    return place >= 0 && texts_[static_cast<size_t>(place)] == text ? place : -1;
  }

 private:
  size_t Slot(std::string_view text) const {
    uint64_t key = 0;
    if (const size_t size = text.size(); size > 0) {
      const auto at = [text](size_t i) { return uint64_t{static_cast<unsigned char>(text[i])}; };
      key = size << 24 | at(0) << 16 | at(size / 2) << 8 | at(size - 1);
    }
    return static_cast<size_t>(key * multiplier_ >> shift_);
  }
  // Whether each text has a slot of its own with the current multiplier.
  bool FillSlots();
  int FindByHash(std::string_view text) const;

  std::vector<std::string> texts_;
  std::vector<int32_t> slots_;  // index of a text, or -1; empty: it needs the hash
  uint64_t multiplier_ = 0;
  int shift_ = 0;
  std::unordered_map<std::string_view, int> places_;
};

}  // namespace leat::stream
