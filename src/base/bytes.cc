#include "base/bytes.h"

#include <xxhash.h>

namespace leat {

uint64_t Checksum(ByteView bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace leat
