// Where a JSON value ends, and why a record is no JSON object.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace leat::stream {

// The end of the array or object at the beginning of a text, by its brackets alone; npos if the text ends
// before. Thread-safe.
size_t EndOfJson(std::string_view text);

// Why a record that a parser has rejected is no JSON object: text follows it, or bytes come before it. Empty
// for other causes. Thread-safe.
std::string WhyNoObject(std::string_view record);

}  // namespace leat::stream
