// Fast looks at texts: their first bytes, their special characters, whether they are UTF-8, and the numbers
// that they spell.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace leat::stream {

bool ValidUtf8(std::string_view text);
// "is not UTF-8 (byte 0xe1 at 4)" for the first byte that is wrong; empty if there is none.
std::string WhyNotUtf8(std::string_view text);

// The first 16 bytes of a text, to compare texts without calls.
struct TextStart {
  static constexpr size_t kBytes = 16;

  size_t size = 0;                 // bytes of the whole text
  uint64_t first = 0, second = 0;  // 8 bytes each, zeros after the text's end
  friend bool operator==(const TextStart&, const TextStart&) = default;

  // Whether two texts with the same start are equal.
  bool has_all() const { return size <= kBytes; }
  bool is_ascii() const { return ((first | second) & 0x8080808080808080) == 0; }

  static TextStart Of(std::string_view text) {
    TextStart start{.size = text.size()};
    const auto load = [&](auto part, size_t at) {
      std::memcpy(&part, text.data() + at, sizeof(part));
      return uint64_t{part};
    };
    const size_t size = text.size();
    if (size >= 8) {
      start.first = load(uint64_t{}, 0);
      if (size >= kBytes) {
        start.second = load(uint64_t{}, 8);
      } else if (size > 8) {
        start.second = load(uint64_t{}, size - 8) >> 8 * (kBytes - size);
      }
    } else if (size >= 4) {
      start.first = load(uint32_t{}, 0) | load(uint32_t{}, size - 4) >> 8 * (8 - size) << 32;
    } else if (size > 0) {
      start.first = load(uint8_t{}, 0) | load(uint8_t{}, size / 2) << 8 * (size / 2) |
                    load(uint8_t{}, size - 1) << 8 * (size - 1);
    }
    return start;
  }

  // The same, without branches. 16 bytes are readable from the text's begin.
  static TextStart OfReadable(std::string_view text) {
    TextStart start{.size = text.size()};
    std::memcpy(&start.first, text.data(), 8);
    std::memcpy(&start.second, text.data() + 8, 8);
    start.first &= Mask(text.size());
    start.second &= Mask(text.size() > 8 ? text.size() - 8 : 0);
    return start;
  }

 private:
  // The mask of so many bytes, at most 8.
  static uint64_t Mask(size_t bytes) {
    const uint64_t mask = (uint64_t{1} << (8 * bytes & 63)) - 1;
    return bytes >= 8 ? ~uint64_t{0} : mask;
  }
};

// The first character at or after `p` that a plain JSON string cannot have: a quote, a backslash, or a byte
// below 0x20 or from 0x80 on. There has to be one, with 15 readable bytes after it.
inline const char* FindUnplain(const char* p) {
#if defined(__SSE2__)
  for (;; p += 16) {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    // Bytes are signed here, so those from 0x80 on are below 0x20, too.
    const __m128i special = _mm_or_si128(
        _mm_or_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('"')), _mm_cmpeq_epi8(text, _mm_set1_epi8('\\'))),
        _mm_cmplt_epi8(text, _mm_set1_epi8(0x20)));
    if (const auto found = static_cast<uint32_t>(_mm_movemask_epi8(special)))
      return p + std::countr_zero(found);
  }
#else
  while (*p != '"' && *p != '\\' && static_cast<signed char>(*p) >= 0x20) ++p;
  return p;
#endif
}

// The first `wanted` in [p, end), or `end`. Fast if it is near and `end` is not.
inline const char* FindCharacter(const char* p, const char* end, char wanted) {
#if defined(__SSE2__)
  for (; end - p >= 16; p += 16) {
    const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i equal = _mm_cmpeq_epi8(text, _mm_set1_epi8(wanted));
    if (const auto found = static_cast<uint32_t>(_mm_movemask_epi8(equal)))
      return p + std::countr_zero(found);
  }
#endif
  while (p < end && *p != wanted) ++p;
  return p;
}

// Whether all characters in [p, end) are below 0x80. 15 bytes are readable after them.
inline bool AllAscii(const char* p, const char* end) {
#if defined(__SSE2__)
  __m128i all = _mm_setzero_si128();
  for (; end - p >= 16; p += 16)
    all = _mm_or_si128(all, _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const auto last =
      static_cast<uint32_t>(_mm_movemask_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  return _mm_movemask_epi8(all) == 0 && (last & ((uint32_t{1} << (end - p)) - 1)) == 0;
#else
  while (p < end && static_cast<signed char>(*p) >= 0) ++p;
  return p == end;
#endif
}

// Conversion of decimal numbers to double, correctly rounded. Common short numbers need no library call.

inline bool IsDigit(char c) {
  return static_cast<unsigned char>(c - '0') < 10;
}

// The powers of ten that a double represents exactly.
inline constexpr double kExactPowers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                          1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                          1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

// The 8 bytes at `p`, digits as 0 to 9, and a mask with the high bit of each byte that is no digit. Bits of
// the mask above the first such byte may be wrong if that byte is not ASCII (carries).
struct EightBytes {
  uint64_t digits;
  uint64_t others;
};
inline EightBytes ReadEightBytes(const char* p) {
  uint64_t word;
  std::memcpy(&word, p, 8);
  word ^= 0x3030303030303030;
  return {word, ((word + 0x7676767676767676) | word) & 0x8080808080808080};
}

// The value of the first bits / 8 digits; 8 ≤ bits ≤ 64.
inline uint64_t ValueOfDigits(uint64_t digits, int bits) {
  // Moves the last digit to the highest byte, with zeros before the first. Then combines neighbours to 2, 4
  // and 8 digits.
  digits <<= 64 - bits;
  digits = digits * 10 + (digits >> 8);
  return ((digits & 0x000000ff000000ff) * 0x000f424000000064 +
          ((digits >> 16) & 0x000000ff000000ff) * 0x0000271000000001) >>
         32;
}

// Parses up to 8 digits at `p`: their count and value. 8 bytes must be readable.
struct Digits {
  int count;
  uint64_t value;
};
inline Digits ReadDigits(const char* p) {
  const auto [digits, others] = ReadEightBytes(p);
  if (others & 0x80) return {0, 0};
  const int bits = others ? std::countr_zero(others) - 7 : 64;
  return {bits / 8, ValueOfDigits(digits, bits)};
}

inline constexpr uint64_t kTenTo[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// Appends the digits at `p` to `mantissa` (wrong above 19 digits); returns the end of the digits.
inline const char* AppendDigits(const char* p, uint64_t* mantissa) {
  for (;;) {
    const Digits digits = ReadDigits(p);
    *mantissa = *mantissa * kTenTo[digits.count] + digits.value;
    p += digits.count;
    if (digits.count < 8) return p;
  }
}

// Parses a number of at most 8 characters without sign and exponent, such as 12.25, all its digits at once.
// Returns null for any other, valid or not.
inline const char* ParseShortNumber(const char* p, double* out) {
  auto [digits, others] = ReadEightBytes(p);
  if (others == 0) return nullptr;
  const int point = std::countr_zero(others) - 7;  // bits before the first other byte
  const char* end = p + point / 8;
  int bits = point;
  if (*end == '.') {
    const uint64_t before = (uint64_t{1} << point) - 1;
    digits = (digits & before) | ((digits >> 8) & ~before);
    others = (others >> 8) & ~before;
    bits = others ? std::countr_zero(others) - 7 : 56;
    if (bits == point) return nullptr;
    end = p + bits / 8 + 1;
    if (IsDigit(*end)) return nullptr;
  }
  if (point == 0 || (point > 8 && (digits & 0xff) == 0) || (*end | 0x20) == 'e') return nullptr;
  *out = static_cast<double>(static_cast<int64_t>(ValueOfDigits(digits, bits))) /
         kExactPowers[(bits - point) / 8];
  return end;
}

// Whether a decimal number that std::from_chars finds out of range is too large, and not too close to 0.
bool IsAboveDouble(std::string_view number);
// Whether a text would be a number if double had a larger range.
bool IsTooLargeNumber(std::string_view text, char decimal = '.');

// ParseNumber for numbers of any length.
//
// A mantissa below 2^53 and a power of ten up to 22 are both exact, so one multiplication or division rounds
// once (Clinger 1990). All other numbers use std::from_chars.
[[gnu::noinline]] inline const char* ParseAnyNumber(const char* p, double* out) {
  const char* const begin = p;
  const bool negative = *p == '-';
  p += negative;
  uint64_t mantissa = 0;
  const char* digits = p;
  p = AppendDigits(p, &mantissa);
  std::ptrdiff_t count = p - digits;
  if (count == 0 || (count > 1 && *digits == '0')) return nullptr;
  std::ptrdiff_t exponent = 0;
  if (*p == '.') {
    const char* const fraction = ++p;
    p = AppendDigits(p, &mantissa);
    exponent = fraction - p;
    if (exponent == 0) return nullptr;
    count -= exponent;
  }
  if (*p == 'e' || *p == 'E') {
    ++p;
    const bool below = *p == '-';
    p += below || *p == '+';
    digits = p;
    int written = 0;
    while (IsDigit(*p)) {
      if (written < 10000) written = written * 10 + (*p - '0');
      ++p;
    }
    if (p == digits) return nullptr;
    exponent += below ? -written : written;
  }
  if (count <= 19 && mantissa <= uint64_t{1} << 53 && exponent >= -22 && exponent <= 22) {
    const auto exact = static_cast<double>(mantissa);
    const double value = exponent < 0 ? exact / kExactPowers[-exponent] : exact * kExactPowers[exponent];
    *out = negative ? -value : value;
    return p;
  }
  const auto [end, error] = std::from_chars(begin, p, *out);
  if (error == std::errc()) return end == p ? p : nullptr;
  if (IsAboveDouble({begin, p})) return nullptr;
  *out = negative ? -0.0 : 0.0;
  return p;
}

// Parses a JSON number (RFC 8259, section 6) at `p`. Returns its end, or null if there is none or it exceeds
// the range of double. Reads up to 8 bytes after the number.
inline const char* ParseNumber(const char* p, double* out) {
  const bool negative = *p == '-';
  double value;
  if (const char* const end = ParseShortNumber(p + negative, &value)) {
    *out = negative ? -value : value;
    return end;
  }
  return ParseAnyNumber(p, out);
}

// Values of a category: numbers and booleans are compared by value, all other texts by their bytes.

// A longer text is no number here.
inline constexpr size_t kLongestCanonical = 40;
using CanonicalBuffer = std::array<char, kLongestCanonical + 16>;

// The one spelling of the number or boolean that the text spells, in the text itself or in `buffer`; nullopt
// for any other text. Numbers are decimal, as CsvNumber takes them, and exact: 1, 1.0, +1 and 10e-1 are "1".
// A zero before other digits makes a code, which is a text: 007. `decimal`: a decimal point besides the dot.
std::optional<std::string_view> CanonicalSpelling(std::string_view text, char decimal,
                                                  CanonicalBuffer* buffer);

// True for most texts whose canonical spelling is not another one, without a call: words, and digits alone.
inline bool IsAsItIs(std::string_view text) {
  const auto first = text.empty() ? 'x' : static_cast<unsigned char>(text[0]);
  if (first > '9') return (first | 0x20) != 't' && (first | 0x20) != 'f';
  return std::ranges::all_of(text, IsDigit);
}

}  // namespace leat::stream
