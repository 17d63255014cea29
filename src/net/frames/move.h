// The frames by which a server hands slices over to another one (docs/formats/frame.md). All functions are
// pure and thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/ids.h"
#include "base/status.h"
#include "protocol/ledger.h"
#include "protocol/slice.h"

namespace leat::wire {

// Limits of one move, and of one slice's state.
constexpr uint32_t kMaxMovedSlices = 1 << 16;
constexpr uint64_t kMaxSliceStateBytes = 64 << 20;

// The header of a frame with one slice. The payload is its state, then its values and slots.
struct MoveRequest {
  uint64_t move = 0;   // unique
  uint32_t index = 0;  // among the slices of the move, which come in order
  uint32_t count = 1;  // number of slices in the move
  SliceId slice;
  Incarnation incarnation;
  uint64_t version = 0;
  uint64_t events = 0;
  uint64_t saved = 0;  // protocol::MovedSlice::saved
  uint64_t state_bytes = 0;
};
LEAT_FIELDS(MoveRequest, (move), (index, AtMost(kMaxMovedSlices - 1)),
            (count, AtLeast(self.index + uint64_t{1}), AtMost(kMaxMovedSlices)), (slice), (incarnation),
            (version), (events), (saved), (state_bytes, AtMost(kMaxSliceStateBytes)));

// The answer to all frames of a move: the slices are held here, or the reason why not.
struct MoveReply {
  uint64_t move = 0;
  Status status;
};
LEAT_FIELDS(MoveReply, (move), (status, CutTo(4096)));

// The part of the payload before the numbers.
struct SliceState {
  protocol::Ledger ledger;
  std::vector<protocol::DecidedStep> decided;
};
LEAT_FIELDS(SliceState, (ledger), (decided, AtMost(1 << 20)));

}  // namespace leat::wire
