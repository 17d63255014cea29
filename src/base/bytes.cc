#include "base/bytes.h"

#include <xxhash.h>

#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace leat {

uint64_t Checksum(ByteView bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

namespace {

constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
    table[i] = crc;
  }
  return table;
}
constexpr auto kTable = MakeTable();

uint32_t ByTable(uint32_t crc, ByteView bytes) {
  for (const std::byte byte : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint32_t>(byte)) & 255];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t ByInstruction(uint32_t crc, ByteView bytes) {
  uint64_t state = crc;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    state = _mm_crc32_u64(state, word);
  }
  return ByTable(static_cast<uint32_t>(state), {at, left});
}
#endif

}  // namespace

uint32_t Crc32c(ByteView bytes) {
#if defined(__x86_64__)
  static const bool kInstruction = __builtin_cpu_supports("sse4.2");
  if (kInstruction) return ~ByInstruction(~uint32_t{0}, bytes);
#endif
  return ~ByTable(~uint32_t{0}, bytes);
}

}  // namespace leat
