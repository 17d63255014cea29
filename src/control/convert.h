// Control messages as bytes: protobuf, as control.proto describes it. Pure functions.
//
// Parsing believes nothing. Every count, enumerator, length and cut is checked, and the first that does not
// fit makes the whole message kInvalidArgument, naming the field and its value.
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
