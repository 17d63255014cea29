// The headers of file transfers: reads of ranges of published files, and uploads (docs/formats/transfer.md).
#pragma once

#include <cstdint>
#include <string>

#include "base/fields/fields.h"
#include "base/status.h"
#include "net/frames/handshake.h"

namespace leat::wire {

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
