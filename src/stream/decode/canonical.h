// Values of a category: numbers and booleans are compared by value, all other texts by their bytes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "stream/decode/number.h"

namespace leat::stream {

// A longer text is no number here.
inline constexpr size_t kLongestCanonical = 40;
using CanonicalBuffer = std::array<char, kLongestCanonical + 16>;

// The one spelling of the number or boolean that the text spells, in the text itself or in `buffer`; nullopt
// for any other text. Numbers are decimal, as CsvNumber takes them, and exact: 1, 1.0, +1 and 10e-1 are "1".
// A zero before other digits makes a code, which is a text: 007. `decimal`: a decimal point besides the dot.
std::optional<std::string_view> CanonicalSpelling(std::string_view text, char decimal,
                                                  CanonicalBuffer* buffer);

// True for most texts whose canonical spelling is not another one, without a call: words, and digits alone.
inline bool IsAsItIs(std::string_view text) {
  const auto first = text.empty() ? 'x' : static_cast<unsigned char>(text[0]);
  if (first > '9') return (first | 0x20) != 't' && (first | 0x20) != 'f';
  return std::ranges::all_of(text, IsDigit);
}

}  // namespace leat::stream
