// Encodes and decodes the frames between workers and servers: a fixed prefix, a header and a payload.
// docs/formats/frame.md has the grammar.
//
// All functions are pure and thread-safe. Decoders treat input as untrusted: they check magic, version,
// checksums, counts and lengths, return kDataLoss on a violation, and never allocate more than the input
// could justify.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"
#include "net/frames/handshake.h"

namespace leat::wire {

// Increment with every change of an encoding that no list of fields describes: payloads, the handshake. Both
// ends must have the same version.
constexpr uint32_t kVersion = 6;

enum FrameType : uint8_t {
  kPush = 1,
  kPushReply = 2,
  kTransferRequest = 3,
  kTransferReply = 4,
  kMove = 5,
  kMoveReply = 6,
  kForward = 7,
  kForwardReply = 8,
};

// The port of a parameter server.
Port ServerPort();

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
// `bytes` has FramePrefix::kBytes bytes. The prefix checksum is verified first, then the lengths against the
// limits.
Result<FramePrefix> DecodePrefix(ByteView bytes, uint32_t max_header_bytes, uint64_t max_payload_bytes);
// Verifies the checksum of the header.
Status CheckHeader(const FramePrefix& prefix, ByteView header);

}  // namespace leat::wire
