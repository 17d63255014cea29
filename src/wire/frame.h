// Encodes and decodes the frames between workers and servers: a fixed prefix, a header and a payload.
// docs/formats/frame.md has the grammar.
//
// All functions are pure and thread-safe. Decoders treat input as untrusted: they check magic, version,
// checksums, counts and lengths, return kDataLoss on a violation, and never allocate more than the input
// could justify.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::wire {

// Increment with every incompatible change. Both ends must have the same version.
constexpr uint32_t kVersion = 2;

enum class FrameType : uint8_t { kPush = 1, kPushReply = 2 };

// ---- hello: the first bytes in each direction of a connection, of fixed size, so that no length from an
// unauthenticated peer is used. It contains a digest of the job's token. The two sides' digests differ, so an
// echo proves nothing. An eavesdropper can replay the digest: an untrusted network needs TLS below.
enum class Side : uint8_t { kConnects = 1, kAccepts = 2 };
constexpr size_t kHelloBytes = 48;
Bytes EncodeHello(std::string_view token, Side side = Side::kConnects);
// The answer to a hello with another token: a hello whose digest is zero.
Bytes EncodeRefusal();
// Compares digests in constant time. Returns kPermissionDenied for another token, kDataLoss for anything else
// that is not a hello of this version and side.
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
// `bytes` has FramePrefix::kBytes bytes. The prefix checksum is verified first, then the lengths against the
// limits.
Result<FramePrefix> DecodePrefix(ByteView bytes, uint32_t max_header_bytes, uint64_t max_payload_bytes);
// Verifies the checksum of the header.
Status CheckHeader(const FramePrefix& prefix, ByteView header);

}  // namespace leat::wire
