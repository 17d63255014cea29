// Frames of the tensor plane: a fixed prefix, a header, a payload (docs/formats/frame.md is the grammar).
//
// Pure functions between bytes and structs. Nothing that arrives is believed: every decoder checks magic,
// version, checksums, counts and lengths and returns kDataLoss otherwise; none allocates by a count that the
// bytes at hand could not hold. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"
#include "protocol/messages_data.h"

namespace leat::wire {

// Grows with every change that an older peer would read wrongly; both ends must have the same.
constexpr uint32_t kVersion = 2;

enum class FrameType : uint8_t { kPush = 1, kPushReply = 2 };

// ---- hello: the first bytes on a connection, each way, of fixed size, so that no length from a stranger is
// ever believed. It carries a digest of the job's token that differs by side, so an echo proves nothing. Who
// can read the connection could show the same digest again: a network that isn't trusted needs TLS under it.
enum class Side : uint8_t { kConnects = 1, kAccepts = 2 };
constexpr size_t kHelloBytes = 48;
Bytes EncodeHello(std::string_view token, Side side = Side::kConnects);
// What answers a hello with another token: a hello of no token at all.
Bytes EncodeRefusal();
// In constant time for any digest. kPermissionDenied on another token, kDataLoss on anything that is no
// hello of this version and side.
Status CheckHello(ByteView hello, std::string_view token, Side side = Side::kConnects);

// ---- prefix
struct FramePrefix {
  static constexpr size_t kBytes = 24;
  uint8_t type = 0;
  uint32_t header_bytes = 0;
  uint32_t header_checksum = 0;
  uint64_t payload_bytes = 0;
  friend bool operator==(const FramePrefix&, const FramePrefix&) = default;
};

FramePrefix MakePrefix(uint8_t type, ByteView header, uint64_t payload_bytes);
void EncodePrefix(const FramePrefix& prefix, std::byte* out /* kBytes */);
// `bytes` has FramePrefix::kBytes. Its own checksum is checked before any of its fields, these against the
// limits then.
Result<FramePrefix> DecodePrefix(ByteView bytes, uint32_t max_header_bytes, uint64_t max_payload_bytes);
// Whether these are the header bytes that the prefix was made for.
Status CheckHeader(const FramePrefix& prefix, ByteView header);

// ---- headers. A cut is carried only by a push that has a run (any disposition but kPull), and `counted`
// only by one that has a turn.
Bytes Encode(const protocol::PushRequest& message);
Bytes Encode(const protocol::PushReply& message);
Result<protocol::PushRequest> DecodePushRequest(ByteView header);
Result<protocol::PushReply> DecodePushReply(ByteView header);

}  // namespace leat::wire
