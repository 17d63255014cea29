// Checksum (base/bytes.h) of bytes that arrive in pieces. Thread-compatible.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <memory>

#include "base/bytes.h"

namespace leat::checkpoint {

class RunningChecksum {
 public:
  RunningChecksum() : state_(XXH3_createState(), XXH3_freeState) { XXH3_64bits_reset(state_.get()); }
  void Add(ByteView bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

}  // namespace leat::checkpoint
