// JSON from text and to text. The parser and the writer of nlohmann/json are compiled behind these functions
// alone: they are 50 kB of templates in each batch that calls them.
#pragma once

#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace leat {

// Without building the value. Numbers beyond the range of double are not taken.
bool IsJson(std::string_view text);

// Discarded (is_discarded()) if the text is not JSON.
nlohmann::json ParsedJson(std::string_view text);
nlohmann::ordered_json ParsedOrderedJson(std::string_view text);  // keeps the order of names

// In quotation marks. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);
// Bytes that are not UTF-8 become U+FFFD. With an indentation, each value is on a line of its own.
std::string JsonText(const nlohmann::json& value, int indentation = -1);
std::string JsonText(const nlohmann::ordered_json& value, int indentation = -1);

// Protection against JSON of others that is nested so deep that functions which follow it, such as nlohmann's
// dump and copies, overflow the stack.

// Whether lists and objects are nested in at most so many levels, as far as the text is JSON.
bool IsShallowJson(std::string_view text, int levels);

// JSON without a tree, for objects that are written in the thousands a second.

// Appends the pieces: texts, which are JSON already, numbers, and lists of numbers, without brackets. A
// number has so many digits that the same one is read again; one that is not finite is null.
template <class... Pieces>
void AppendJson(std::string* out, const Pieces&... pieces) {
  const auto append_number = [out](auto number) {
    static_assert(!std::is_same_v<decltype(number), char>);
    char text[32];
    const char* const end = std::to_chars(text, std::end(text), number).ptr;
    out->append(std::isfinite(static_cast<double>(number)) ? std::string_view(text, end) : "null");
  };
  const auto append = [&](const auto& piece) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(piece)>>) {
      append_number(piece);
    } else if constexpr (std::is_convertible_v<decltype(piece), std::string_view>) {
      out->append(piece);
    } else {
      for (size_t i = 0; i < piece.size(); ++i) {
        if (i > 0) *out += ',';
        append_number(piece[i]);
      }
    }
  };
  (append(pieces), ...);
}

}  // namespace leat
