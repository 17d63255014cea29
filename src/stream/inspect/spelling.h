// Texts that hold a number which no decoder reads.
#pragma once

#include <string_view>

namespace leat::stream {

// How a text spells a number, and how to write it: numbers `how`, such as '5%', are texts; `remedy`.
struct Spelling {
  std::string_view how, remedy;
};

// Null if the text is a plain number with this decimal point, or none. The result is one of a few constants.
// Thread-safe.
const Spelling* SpellingOf(std::string_view text, char decimal = '.');

// The spelling of a plain number that is a text in JSON.
extern const Spelling kInQuotes;

}  // namespace leat::stream
