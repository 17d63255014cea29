// A slice with its values, as kept by servers and members and saved in checkpoints.
#pragma once

#include <cstdint>
#include <span>

#include "base/ids.h"
#include "protocol/ledger.h"
#include "tensor/buffer.h"

namespace leat::protocol {

// One slice with everything that is saved and moved with it.
struct Slice {
  SliceId id;
  Incarnation incarnation;
  uint64_t version = 0;  // updates applied; stepped strategies: steps completed, including skipped ones
  uint64_t events = 0;   // good records in them
  uint32_t slots = 0;    // of the optimizer; a statistic has none
  uint64_t elements = 0;
  Buffer memory;  // values, then slot 0, slot 1, …: each `elements` f32
  Ledger ledger;
  std::span<float> values() const;
  std::span<float> slot(uint32_t i) const;
};

}  // namespace leat::protocol
