// Fast formatting of short decimal numbers, for event generators.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace leat::stream {

inline void AppendInteger(uint64_t value, std::string* out) {
  char text[20];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  out->append(text, end);
}

// `x` rounded to `digits` (0 to 9) decimals, without trailing zeros; |x| < 2^63 / 10^digits.
inline void AppendFixed(double x, int digits, std::string* out) {
  constexpr int64_t kPowers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};
  const auto scaled = static_cast<int64_t>(x * static_cast<double>(kPowers[digits]) + (x < 0 ? -0.5 : 0.5));
  if (scaled < 0) out->push_back('-');
  const auto size = static_cast<uint64_t>(scaled < 0 ? -scaled : scaled);
  const auto power = static_cast<uint64_t>(kPowers[digits]);
  AppendInteger(size / power, out);
  uint64_t fraction = size % power;
  if (fraction == 0) return;
  char text[10];
  text[0] = '.';
  for (int i = digits; i > 0; --i, fraction /= 10) text[i] = static_cast<char>('0' + fraction % 10);
  int length = digits;
  while (text[length] == '0') --length;
  out->append(text, static_cast<size_t>(length) + 1);
}

}  // namespace leat::stream
