// A slice with its values, as kept by servers and members and saved in checkpoints.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "compute/tensor/buffer.h"
#include "protocol/ledger.h"

namespace leat::protocol {

// A slice with everything that is saved and moved with it.
struct Slice {
  SliceId id;
  Incarnation incarnation;
  uint64_t version = 0;  // updates applied; stepped strategies: steps completed, including skipped ones
  uint64_t events = 0;   // good records in them
  uint32_t slots = 0;    // optimizer slots; a statistic has none
  uint64_t elements = 0;
  Buffer memory;  // values, then slot 0, slot 1, …: each `elements` f32
  Ledger ledger;
  std::span<float> values() const { return {reinterpret_cast<float*>(memory.data()), elements}; }
  std::span<float> slot(uint32_t i) const {
    LEAT_CHECK(i < slots);
    return {reinterpret_cast<float*>(memory.data()) + (i + 1) * elements, elements};
  }
};

// Backup workers: the lanes that count in a step (PushRequest::counted).
struct DecidedStep {
  uint64_t step = 0;
  uint32_t width = 1, needed = 1;  // as StepLane's
  std::vector<uint64_t> counted;
};
LEAT_FIELDS(DecidedStep, (step), (width), (needed), (counted, AtMost(1 << 10), Each(Fixed)));

// A slice that is handed over to another server, with what the server needs to go on.
struct MovedSlice {
  std::shared_ptr<const Slice> slice;
  uint64_t saved = 0;                // the newest checkpoint that has been saved with it
  std::vector<DecidedStep> decided;  // the last ones, with the slice by which lanes are chosen
};

}  // namespace leat::protocol
