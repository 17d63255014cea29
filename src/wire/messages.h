// Encodes and decodes the headers of frames whose sizes matter: pushes and their replies, and pushes that a
// server forwards for the replicas of its slices (docs/formats/frame.md).
//
// All functions are pure and thread-safe. Decoders treat input as untrusted and return kDataLoss on a
// violation.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/messages_data.h"
#include "wire/handshake.h"

namespace leat::wire {

// Only a push with a run (any disposition except kPull) has a cut, and only one with a step
// lane has `counted`.
Bytes Encode(const protocol::PushRequest& message);
Bytes Encode(const protocol::PushReply& message);
Result<protocol::PushRequest> DecodePushRequest(ByteView header);
Result<protocol::PushReply> DecodePushReply(ByteView header);
// The payload is that of the push.
Bytes Encode(const protocol::ForwardRequest& message);
Result<protocol::ForwardRequest> DecodeForwardRequest(ByteView header);

// The port of a parameter server.
Port ServerPort();

}  // namespace leat::wire
