// The bytes of control messages: their fields, as src/protocol/messages_control.h lists them
// (base/fields/codec.h, docs/formats/control.md). Pure functions.
//
// Input is untrusted. The first violation makes the whole message kInvalidArgument, with the field and its
// value.
#pragma once

#include "base/bytes.h"
#include "base/status.h"
#include "net/frames/handshake.h"
#include "protocol/messages_control.h"

namespace leat::control {

inline constexpr size_t kMaxMessageBytes = 4 << 20;

Bytes Serialize(const protocol::ControlRequest& request);
Bytes Serialize(const protocol::ControlReply& reply);

Result<protocol::ControlRequest> ParseRequest(ByteView bytes);
Result<protocol::ControlReply> ParseReply(ByteView bytes);

// The port of a coordinator.
wire::Port ControlPort();

}  // namespace leat::control
