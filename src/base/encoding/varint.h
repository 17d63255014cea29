// Whole numbers in as few bytes as they need: seven bits in each, the lowest first, and the eighth set in all
// but the last.
#pragma once

#include <bit>
#include <cstdint>

#include "base/bytes.h"

namespace leat {

inline void PutVarint(uint64_t value, ByteWriter* out) {
  for (; value >= 0x80; value >>= 7) out->Put(static_cast<uint8_t>(value | 0x80));
  out->Put(static_cast<uint8_t>(value));
}

// Fails the reader for more than 64 bits, and for bytes that a shorter form of the number has not.
inline uint64_t GetVarint(ByteReader* in) {
  const auto first = in->Get<uint8_t>();
  if (first < 0x80) return first;
  uint64_t value = first & 0x7fU;
  for (int shift = 7; shift < 64; shift += 7) {
    const auto byte = in->Get<uint8_t>();
    if (byte == 0 || (shift == 63 && byte > 1)) break;
    value |= uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return in->ok() ? value : 0;
  }
  in->Fail();
  return 0;
}

constexpr uint64_t BytesOfVarint(uint64_t value) {
  return static_cast<uint64_t>(std::bit_width(value | 1) + 6) / 7;
}

// Numbers near 0 get few bytes, whatever their sign.
constexpr uint64_t ZigZag(int64_t value) {
  return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
}

}  // namespace leat
