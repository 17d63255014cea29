#include "stream/decode/number.h"

#include <algorithm>
#include <string>

namespace leat::stream {

bool IsAboveDouble(std::string_view number) {
  constexpr int64_t kMost = 1'000'000'000;
  int64_t magnitude = 0;  // the number is below 10 to this power, and at least a tenth of that
  bool fraction = false, significant = false;
  size_t at = 0;
  for (; at < number.size() && (number[at] | 0x20) != 'e'; ++at) {
    if (number[at] == '.') fraction = true;
    if (!IsDigit(number[at])) continue;
    significant = significant || number[at] != '0';
    if (significant != fraction) magnitude += fraction ? -1 : 1;
  }
  int64_t exponent = 0;
  for (size_t i = at; i < number.size(); ++i) {
    if (IsDigit(number[i]) && exponent < kMost) exponent = exponent * 10 + (number[i] - '0');
  }
  const bool below = at + 1 < number.size() && number[at + 1] == '-';
  return magnitude + (below ? -exponent : exponent) > 0;
}

bool IsTooLargeNumber(std::string_view text, char decimal) {
  if (decimal != '.' && text.find('.') != text.npos) return false;
  std::string number(text);
  std::ranges::replace(number, decimal, '.');
  if (number.starts_with('+') && !number.starts_with("+-")) number.erase(0, 1);
  double ignored;
  const char* const end = number.data() + number.size();
  const auto read = std::from_chars(number.data(), end, ignored);
  return read.ec == std::errc::result_out_of_range && read.ptr == end && IsAboveDouble(number);
}

}  // namespace leat::stream
