// Reads the primitive values of Avro's binary encoding.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "stream/source.h"

namespace leat::stream {

// The most bytes that ReadAvroLong reads.
inline constexpr size_t kMaxAvroLong = 10;
static_assert(RecordBatch::kPadding >= kMaxAvroLong);

// Reads a number of variable length at `p`: 7 bits per byte, the lowest first, zigzag. Returns its end, or
// null if it has more than 64 bits. Reads up to 10 bytes, whatever the length of the record: the caller
// compares the end.
inline const uint8_t* ReadAvroLong(const uint8_t* p, int64_t* out) {
  uint64_t bits = *p;
  if (bits < 0x80) {
    *out = static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
    return p + 1;
  }
  uint64_t word;
  std::memcpy(&word, p, 8);
  const uint64_t ends = ~word & 0x8080808080808080;
  // Joins the groups of 7 bits in pairs, then those of 14 and of 28.
  const auto join = [](uint64_t w) {
    w = (w & 0x007f007f007f007f) | ((w & 0x7f007f007f007f00) >> 1);
    w = (w & 0x00003fff00003fff) | ((w & 0x3fff00003fff0000) >> 2);
    return (w & 0x000000000fffffff) | ((w & 0x0fffffff00000000) >> 4);
  };
  if (ends != 0) [[likely]] {
    bits = join(word & (ends ^ (ends - 1)));
    p += std::countr_zero(ends) / 8 + 1;
  } else {
    bits = join(word) | static_cast<uint64_t>(p[8] & 0x7f) << 56;
    if (p[8] < 0x80) {
      p += 9;
    } else {
      if (p[9] > 1) return nullptr;
      bits |= static_cast<uint64_t>(p[9]) << 63;
      p += 10;
    }
  }
  *out = static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
  return p;
}

}  // namespace leat::stream
