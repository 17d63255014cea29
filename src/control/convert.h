// Converts control messages to and from protobuf bytes, as defined in control.proto. Pure functions.
//
// Input is untrusted: every count, enumerator, length and cut is checked. The first violation makes the whole
// message kInvalidArgument, with the field and its value.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/messages_control.h"

namespace leat::control {

inline constexpr size_t kMaxMessageBytes = 4 << 20;

std::string Serialize(const protocol::ControlRequest& request);
std::string Serialize(const protocol::ControlReply& reply);

Result<protocol::ControlRequest> ParseRequest(std::string_view bytes);
Result<protocol::ControlReply> ParseReply(std::string_view bytes);

}  // namespace leat::control
