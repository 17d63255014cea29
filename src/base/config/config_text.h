// The text side of configuration trees: checks of the input, quoting in messages and in YAML.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace leat::config_text {

constexpr size_t kMaxBytes = size_t{1} << 20;

// Throws std::invalid_argument("name:line: message") in one line; without the line if that is 0.
[[noreturn]] void FailAt(std::string_view name, size_t line, std::string_view message);

// Rejects text that is too long, other encodings and control characters: yaml-cpp guesses encodings and stops
// at some control characters.
void Check(std::string_view text, std::string_view name);

// "; did you mean 'dense'?", or `list_title` and all known words if none is close.
std::string Hint(std::string_view word, const std::vector<std::string>& known,
                 std::string_view list_title = "; expected one of: ");

template <class T>
std::optional<T> ParseWhole(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return ToNumber<T>(text);
}
// A finite number.
std::optional<double> ParseNumber(std::string_view text);

// The shortest text that reads as the same value.
template <class T>
std::string Printed(T value) {
  char text[64];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

bool IsNullWord(std::string_view text);
// A scalar as YAML, in double quotes if YAML would read it as something else without. `plain`: it had no
// quotes, so a number stays a number.
std::string Scalar(std::string_view text, bool plain);
// A text in double quotes, as YAML reads it back.
std::string DoubleQuoted(std::string_view text);

}  // namespace leat::config_text
