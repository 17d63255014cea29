// The headers of frames that are no pushes: slices that a server hands over to another one
// (docs/formats/frame.md), and file transfers (docs/formats/transfer.md). All functions are pure and
// thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/ids.h"
#include "base/status.h"
#include "net/frames/handshake.h"
#include "protocol/ledger.h"
#include "protocol/slice.h"

namespace leat::wire {

// ---- slices that move

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

// ---- file transfers: reads of ranges of published files, and uploads

// Limits of one message: the payload, a name, and the text of an error.
constexpr uint32_t kMaxTransferBytes = 1 << 20;
constexpr uint32_t kMaxTransferName = 255;
constexpr uint32_t kMaxTransferError = 4096;

enum class TransferOp : uint8_t {
  kRead = 0,        // `bytes` from `offset` on of the published file `name`; 0 bytes: only its size
  kOpenUpload = 1,  // begins or continues the upload of a file of `bytes` bytes
  kWrite = 2,       // the payload's `bytes` belong at `offset` of the upload
  kCommit = 3,      // the upload is complete
};
LEAT_ENUM(TransferOp, (kRead, "read"), (kOpenUpload, "open_upload"), (kWrite, "write"), (kCommit, "commit"));

struct TransferRequest {
  uint64_t sequence = 0;  // chosen by the sender; the reply repeats it
  TransferOp op = TransferOp::kRead;
  std::string name;       // name of the file; 1 to kMaxTransferName bytes
  uint64_t folder = 0;    // uploads: where the file belongs; reads: 0
  uint64_t offset = 0;    // kRead, kWrite
  uint64_t bytes = 0;     // kRead, kWrite: at most kMaxTransferBytes; kOpenUpload: of the whole file
  uint64_t checksum = 0;  // Checksum: kWrite: of the payload; kOpenUpload: of the whole file
};
LEAT_FIELDS(TransferRequest, (sequence), (op), (name, AtMost(kMaxTransferName)), (folder), (offset), (bytes),
            (checksum, Fixed));
// Whether the operation has the fields that it uses, and no others: those are 0.
Status Check(const TransferRequest& request);

struct TransferReply {
  uint64_t sequence = 0;
  // With an error, the numbers are 0 and there is no payload.
  Status status;
  uint64_t position = 0;  // kRead: the size of the file; uploads: bytes of the file that are there
  uint64_t checksum = 0;  // kRead: Checksum of the payload
};
LEAT_FIELDS(TransferReply, (sequence), (status, CutTo(kMaxTransferError)), (position), (checksum, Fixed));
Status Check(const TransferReply& reply);

// The port of a file transfer service.
Port TransferPort();

// The payload that follows a request.
inline uint64_t PayloadBytes(const TransferRequest& request) {
  return request.op == TransferOp::kWrite ? request.bytes : 0;
}

}  // namespace leat::wire
