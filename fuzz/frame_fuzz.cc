// Frames of a peer are rejected, or encode to the same bytes again.
#include <algorithm>

#include "base/check.h"
#include "base/fields/testing.h"
#include "net/frames/frame.h"
#include "net/frames/handshake.h"
#include "net/frames/messages.h"
#include "protocol/messages_data.h"

namespace {

using namespace leat;

void Handshake(ByteView bytes) {
  for (const auto kind : {wire::PortKind::kControl, wire::PortKind::kServer, wire::PortKind::kMember,
                          wire::PortKind::kTransfer}) {
    const wire::Port port{kind, 0x0123456789abcdef};  // as the seeds have it
    wire::HandshakeContext context{.port = port, .connects = {}, .accepts = {}};
    if (const auto nonce = wire::DecodeHello(bytes, port); nonce.ok())
      LEAT_CHECK(std::ranges::equal(wire::EncodeHello(port, *nonce), bytes));
    if (const auto nonce = wire::CheckChallenge(bytes, context, "token"); nonce.ok()) {
      context.accepts = *nonce;
      LEAT_CHECK(std::ranges::equal(wire::EncodeChallenge(context, "token"), bytes));
    }
    if (wire::CheckProof(bytes, context, "token").ok())
      LEAT_CHECK(std::ranges::equal(wire::EncodeProof(context, "token"), bytes));
  }
  if (wire::DecodeVerdict(bytes).ok())
    LEAT_CHECK(std::ranges::equal(wire::EncodeVerdict(wire::Verdict::kAdmitted), bytes));
}

void Prefix(ByteView bytes) {
  if (bytes.size() < wire::FramePrefix::kBytes) return;
  const ByteView begin = bytes.first(wire::FramePrefix::kBytes);
  const auto prefix = wire::DecodePrefix(begin, 1 << 20, 1 << 30);
  if (!prefix.ok()) return;
  LEAT_CHECK(prefix->header_bytes <= 1 << 20 && prefix->payload_bytes <= 1 << 30);
  Bytes again(wire::FramePrefix::kBytes);
  wire::EncodePrefix(*prefix, again.data());
  LEAT_CHECK(std::ranges::equal(again, begin));
  const ByteView rest = bytes.subspan(wire::FramePrefix::kBytes);
  const ByteView header = rest.first(std::min<size_t>(rest.size(), prefix->header_bytes));
  if (wire::CheckHeader(*prefix, header).ok()) LEAT_CHECK(header.size() == prefix->header_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes{reinterpret_cast<const std::byte*>(data), size};
  Handshake(bytes);
  Prefix(bytes);
  LEAT_CHECK(fields::BytesFault<protocol::PushRequest>(bytes).empty());
  LEAT_CHECK(fields::BytesFault<protocol::PushReply>(bytes).empty());
  LEAT_CHECK(fields::BytesFault<protocol::ForwardRequest>(bytes).empty());
  LEAT_CHECK(fields::BytesFault<protocol::ForwardReply>(bytes).empty());
  LEAT_CHECK(fields::BytesFault<wire::MoveRequest>(bytes).empty());
  LEAT_CHECK(fields::BytesFault<wire::MoveReply>(bytes).empty());
  if (const auto state = fields::Decode<wire::SliceState>(bytes, "state"); state.ok())
    LEAT_CHECK(std::ranges::equal(fields::Encode(*state), bytes));
  return 0;
}
