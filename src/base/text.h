// Texts, taken apart and put together. Nothing here depends on the locale.
#pragma once

#include <charconv>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace leat {

// Whether the character is an ASCII letter or digit.
constexpr bool IsLetterOrDigit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
// Whether the text has 1 to `most` characters: letters, digits and `signs`.
bool IsWord(std::string_view text, size_t most, std::string_view signs);

// Capital letters of ASCII become small ones.
std::string Lower(std::string_view text);

// The text without `blanks` at its ends.
std::string_view Trimmed(std::string_view text, std::string_view blanks = " \t\r\n");

// Bytes of the UTF-8 character that the text begins with; 0 if it is invalid (RFC 3629).
size_t Utf8Length(std::string_view text);

// The beginning of a text, at most so many bytes, cut before a character.
std::string_view CutUtf8(std::string_view text, size_t most);

// "'abc'", for messages: at most so many bytes, cut before a character, with ? for characters that control a
// terminal and for bytes that are not UTF-8.
std::string Quoted(std::string_view text, size_t most = 60);

// Takes the part before the first `separator` off the text, and the separator with it; all if there is none.
std::string_view TakeUntil(std::string_view separator, std::string_view* text);

// The number that the whole text is, as std::from_chars reads it; `base`: of a whole number, unless it is 10.
template <class Number>
std::optional<Number> ToNumber(std::string_view text, auto... base) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The text that printf would write.
[[gnu::format(printf, 1, 2)]] std::string Formatted(const char* format, ...);

// "12.5 s", "20.0 min", "3.0 h"
std::string TimeText(double seconds);

// "1 worker", "2 workers"
std::string Plural(uint64_t count, std::string_view noun);

// The parts as one text: texts, characters, and numbers as std::to_string writes them.
template <class... Parts>
std::string StrCat(const Parts&... parts) {
  std::string text;
  const auto add = [&text]<class Part>(const Part& part) {
    if constexpr (std::is_arithmetic_v<Part> && !std::is_same_v<Part, char>)
      text += std::to_string(part);
    else if constexpr (std::is_same_v<Part, char>)
      text += part;
    else
      text += std::string_view(part);
  };
  (add(parts), ...);
  return text;
}

// "a, b, c"; `text`: a member or function of an element.
template <class Elements, class Text = std::identity>
std::string Joined(const Elements& elements, std::string_view separator = ", ", Text text = {}) {
  std::string all;
  for (const auto& element : elements)
    all.append(all.empty() ? "" : separator).append(std::invoke(text, element));
  return all;
}

}  // namespace leat
