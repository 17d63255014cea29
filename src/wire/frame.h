// Frames of the tensor plane: a fixed prefix, a header, a payload (docs/formats/frame.md is the grammar).
//
// Pure functions between bytes and structs. Nothing that arrives is believed: every decoder checks magic,
// version, counts and lengths and returns kDataLoss otherwise; none allocates by a count that the bytes at
// hand could not hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/messages.h"

namespace leat::wire {

enum class FrameType : uint8_t { kPush = 1, kPushReply = 2 };

struct FramePrefix {
  static constexpr size_t kBytes = 24;
  uint8_t type = 0;
  uint32_t header_bytes = 0;
  uint64_t payload_bytes = 0;
};

// The first bytes on a connection, of fixed size, so that no length from a stranger is ever believed.
constexpr size_t kHelloBytes = 48;
Bytes EncodeHello(std::string_view token);
// In constant time for any content. kPermissionDenied on another token, kDataLoss on anything that is no
// hello of this version.
Status CheckHello(ByteView hello, std::string_view token);

void EncodePrefix(const FramePrefix& prefix, std::byte* out /* kBytes */);
// `bytes` has FramePrefix::kBytes.
Result<FramePrefix> DecodePrefix(ByteView bytes, uint32_t max_header_bytes, uint64_t max_payload_bytes);

Bytes Encode(const protocol::PushRequest& message);
Bytes Encode(const protocol::PushReply& message);
Result<protocol::PushRequest> DecodePushRequest(ByteView header);
Result<protocol::PushReply> DecodePushReply(ByteView header);

}  // namespace leat::wire
