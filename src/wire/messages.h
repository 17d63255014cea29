// Encodes and decodes the headers of frames: pushes and their replies (docs/formats/frame.md).
//
// All functions are pure and thread-safe. Decoders treat input as untrusted and return kDataLoss on a
// violation.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/messages_data.h"

namespace leat::wire {

// Only a push with a run (any disposition except kPull) has a cut, and only one with a step
// lane has `counted`.
Bytes Encode(const protocol::PushRequest& message);
Bytes Encode(const protocol::PushReply& message);
Result<protocol::PushRequest> DecodePushRequest(ByteView header);
Result<protocol::PushReply> DecodePushReply(ByteView header);

}  // namespace leat::wire
