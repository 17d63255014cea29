// Fast looks at texts: their first bytes, their special characters, and whether they are UTF-8.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

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

}  // namespace leat::stream
