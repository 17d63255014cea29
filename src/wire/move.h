// Encodes and decodes the frames by which a server hands slices over to another one (docs/formats/frame.md).
//
// All functions are pure and thread-safe. Decoders treat input as untrusted and return kDataLoss on a
// violation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
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
  uint32_t count = 1;  // of them
  SliceId slice;
  Incarnation incarnation;
  uint64_t version = 0;
  uint64_t events = 0;
  uint64_t saved = 0;  // protocol::MovedSlice::saved
  uint64_t state_bytes = 0;
  friend bool operator==(const MoveRequest&, const MoveRequest&) = default;
};

// The answer to all frames of a move: the slices are held here, or the reason why not.
struct MoveReply {
  uint64_t move = 0;
  Status status;
  friend bool operator==(const MoveReply&, const MoveReply&) = default;
};

// The part of the payload before the numbers.
struct SliceState {
  protocol::Ledger ledger;
  std::vector<protocol::DecidedStep> decided;
  friend bool operator==(const SliceState&, const SliceState&) = default;
};

// The decided lanes of steps, as a part of other messages.
void PutDecided(const std::vector<protocol::DecidedStep>& decided, ByteWriter* out);
std::vector<protocol::DecidedStep> GetDecided(ByteReader* in);

Bytes Encode(const MoveRequest& message);
Bytes Encode(const MoveReply& message);
Bytes Encode(const SliceState& state);
Result<MoveRequest> DecodeMoveRequest(ByteView header);
Result<MoveReply> DecodeMoveReply(ByteView header);
Result<SliceState> DecodeSliceState(ByteView bytes);

}  // namespace leat::wire
