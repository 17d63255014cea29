// Finds special characters of a text, 16 characters at a time.
#pragma once

#include <bit>
#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace leat::stream {

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
