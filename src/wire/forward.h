// Encodes and decodes the headers of frames by which a server forwards pushes for the replicas of its slices,
// and of the answers (docs/formats/frame.md).
//
// All functions are pure and thread-safe. Decoders treat input as untrusted and return kDataLoss on a
// violation.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/messages_data.h"

namespace leat::wire {

// The payload is that of the push.
Bytes Encode(const protocol::ForwardRequest& message);
Bytes Encode(const protocol::ForwardReply& message);
Result<protocol::ForwardRequest> DecodeForwardRequest(ByteView header);
Result<protocol::ForwardReply> DecodeForwardReply(ByteView header);

}  // namespace leat::wire
