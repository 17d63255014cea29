#include "stream/decode/text.h"

#include <simdjson.h>

#include "base/text.h"

namespace leat::stream {

bool ValidUtf8(std::string_view text) {
  return simdjson::validate_utf8(text.data(), text.size());
}

std::string WhyNotUtf8(std::string_view text) {
  if (ValidUtf8(text)) return "";
  size_t good = 0;
  while (const size_t size = Utf8Length(text.substr(good))) good += size;
  return Formatted("is not UTF-8 (byte 0x%02x at %zu)",
                   static_cast<unsigned>(static_cast<unsigned char>(text[good])), good);
}

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

namespace {

constexpr int kMaxExponentDigits = 4;

std::optional<std::string_view> CanonicalBoolean(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return "true";
  if (text == "false" || text == "False" || text == "FALSE") return "false";
  return std::nullopt;
}

// The end of the exponent that begins at `p`, or null.
const char* ReadExponent(const char* p, const char* end, int* exponent) {
  const bool below = p != end && *p == '-';
  p += below || (p != end && *p == '+');
  const char* const digits = p;
  int written = 0;
  for (; p != end && IsDigit(*p); ++p) {
    if (p - digits == kMaxExponentDigits) return nullptr;
    written = written * 10 + (*p - '0');
  }
  *exponent += below ? -written : written;
  return p == digits ? nullptr : p;
}

// Writes digits × 10^exponent. The digits begin and end with others than 0.
std::string_view Spell(bool negative, std::string_view digits, int exponent, CanonicalBuffer* buffer) {
  const int size = static_cast<int>(digits.size()), longest = static_cast<int>(kLongestCanonical) - negative;
  char* out = buffer->data();
  if (negative) *out++ = '-';
  const auto put = [&out](std::string_view text) { out = std::ranges::copy(text, out).out; };
  if (exponent >= 0 && size + exponent <= longest) {
    put(digits);
    out = std::fill_n(out, exponent, '0');
  } else if (exponent < 0 && size + exponent > 0) {
    put(digits.substr(0, static_cast<size_t>(size + exponent)));
    *out++ = '.';
    put(digits.substr(static_cast<size_t>(size + exponent)));
  } else if (exponent < 0 && 2 - exponent <= longest) {
    put("0.");
    out = std::fill_n(out, -exponent - size, '0');
    put(digits);
  } else {
    put(digits);
    *out++ = 'e';
    out = std::to_chars(out, buffer->data() + buffer->size(), exponent).ptr;
  }
  return {buffer->data(), static_cast<size_t>(out - buffer->data())};
}

}  // namespace

std::optional<std::string_view> CanonicalSpelling(std::string_view text, char decimal,
                                                  CanonicalBuffer* buffer) {
  if (text.empty() || text.size() > kLongestCanonical) return std::nullopt;
  const char* p = text.data();
  const char* const end = p + text.size();
  const bool negative = *p == '-', plus = *p == '+';
  if (!IsDigit(*p) && !negative && !plus && *p != '.' && *p != decimal) return CanonicalBoolean(text);
  p += negative || plus;
  const char* const whole = p;
  while (p != end && IsDigit(*p)) ++p;
  const auto count = static_cast<size_t>(p - whole);
  if (count > 1 && *whole == '0') return std::nullopt;
  if (p == end && count > 0 && !plus && !(negative && *whole == '0')) return text;

  std::array<char, kLongestCanonical> digits;
  char* last = std::copy(whole, p, digits.data());
  int exponent = 0;
  if (p != end && (*p == '.' || *p == decimal)) {
    for (++p; p != end && IsDigit(*p); ++p, --exponent) *last++ = *p;
  }
  if (last == digits.data()) return std::nullopt;
  if (p != end && (*p == 'e' || *p == 'E')) {
    p = ReadExponent(p + 1, end, &exponent);
    if (p == nullptr) return std::nullopt;
  }
  if (p != end) return std::nullopt;
  const char* first = digits.data();
  while (first != last && *first == '0') ++first;
  if (first == last) return "0";
  for (; last[-1] == '0'; --last) ++exponent;
  return Spell(negative, {first, static_cast<size_t>(last - first)}, exponent, buffer);
}

}  // namespace leat::stream
