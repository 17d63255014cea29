// JSON without a tree, for objects that are written in the thousands a second.
#pragma once

#include <charconv>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

namespace leat {

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
