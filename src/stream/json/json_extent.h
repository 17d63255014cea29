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

// Numbers that JSON does not have, as Python's json and others write them. NaN is read as null.
inline bool IsNaN(std::string_view token) {
  return token == "NaN";
}
inline bool IsInfinity(std::string_view token) {
  return token == "Infinity" || token == "-Infinity";
}
// Why a record with this token has no such value.
std::string WhyNoJson(std::string_view token);

}  // namespace leat::stream
