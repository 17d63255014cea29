#include "base/fields/description.h"

#include <bit>

namespace leat::fields {

size_t Description::BlockOf(std::string_view name, bool is_variant, const void* type, bool* is_new) {
  size_t at = 0, others = 0;
  for (; at < blocks_.size() && blocks_[at].type != type; ++at) {
    // Types of other namespaces.
    if (blocks_[at].name.substr(0, blocks_[at].name.find('#')) == name) ++others;
  }
  *is_new = at == blocks_.size();
  if (*is_new) {
    const std::string suffix = others > 0 ? "#" + std::to_string(others + 1) : "";
    blocks_.push_back({std::string(name) + suffix, is_variant, {}, type});
  }
  return at;
}

std::string Description::text() const {
  std::string text;
  for (const Block& block : blocks_) {
    text += block.name + (block.is_variant ? ", one of\n" : "\n");
    for (const Row& row : block.rows) {
      text += "  " + row.name + " " + row.type;
      text += row.limits.empty() ? "\n" : ", " + row.limits + "\n";
    }
  }
  return text;
}

// 2^20 - 1 is easier to read than 1048575.
std::string Description::PowerText(uint64_t number) {
  constexpr uint64_t kLeast = 4096;
  if (number >= kLeast && std::has_single_bit(number)) return "2^" + std::to_string(std::countr_zero(number));
  if (number >= kLeast - 1 && (number & (number + 1)) == 0)
    return "2^" + std::to_string(std::bit_width(number)) + " - 1";
  return std::to_string(number);
}

std::string Description::DurationText(int64_t nanoseconds) {
  if (nanoseconds % 1'000'000'000 == 0) return std::to_string(nanoseconds / 1'000'000'000) + " s";
  if (nanoseconds % 1'000'000 == 0) return std::to_string(nanoseconds / 1'000'000) + " ms";
  return std::to_string(nanoseconds) + " ns";
}

std::string Description::Limits(const std::string& least, bool has_least, const std::string& most,
                                bool has_most) {
  if (has_least && has_most) return least + " to " + most;
  if (has_least) return "at least " + least;
  return has_most ? "at most " + most : "";
}

}  // namespace leat::fields
