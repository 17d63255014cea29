// Texts of requests, and JSON that is written without a tree: replies are made in the thousands a second.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat::serve {

// A text of a request without the byte order mark that it may begin with. kInvalidArgument: it is in UTF-16.
Result<std::string_view> TextOf(std::string_view body);

template <class T>
void AppendNumber(T value, std::string* out) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value);
  out->append(text, end.ptr);
}
// With so many digits that the same float is read again; null if it is not finite.
inline void AppendScore(float score, std::string* out) {
  std::isfinite(score) ? AppendNumber(score, out) : static_cast<void>(*out += "null");
}
inline void AppendScores(std::span<const float> scores, std::string* out) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (i > 0) *out += ',';
    AppendScore(scores[i], out);
  }
}
// In quotation marks. Bytes that are no UTF-8 are replaced.
void AppendString(std::string_view text, std::string* out);

}  // namespace leat::serve
