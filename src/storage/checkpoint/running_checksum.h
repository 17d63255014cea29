// Checksum (base/bytes.h) of bytes that arrive in pieces. Thread-compatible.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::checkpoint {

class RunningChecksum {
 public:
  RunningChecksum() : state_(XXH3_createState(), XXH3_freeState) { XXH3_64bits_reset(state_.get()); }
  void Add(ByteView bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

// The checksum of the bytes from offset `begin` to `end`. `read(offset, piece)` fills pieces of `buffer`,
// which must not be empty, and returns a Status.
template <class Read>
Result<uint64_t> ReadChecksum(uint64_t begin, uint64_t end, std::span<std::byte> buffer, const Read& read) {
  RunningChecksum checksum;
  for (uint64_t at = begin; at < end;) {
    const auto piece = buffer.first(std::min<uint64_t>(buffer.size(), end - at));
    LEAT_RETURN_IF_ERROR(read(at, piece));
    checksum.Add(piece);
    at += piece.size();
  }
  return checksum.value();
}

}  // namespace leat::checkpoint
