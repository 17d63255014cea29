// Frames of a peer are rejected, or encode to the same bytes again.
#include <algorithm>

#include "base/check.h"
#include "wire/frame.h"
#include "wire/messages.h"

namespace {

using namespace leat;

template <class Message>
void SameBytes(const Result<Message>& message, ByteView bytes) {
  if (!message.ok()) return;
  const Bytes again = wire::Encode(*message);
  LEAT_CHECK(std::ranges::equal(again, bytes));
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
  for (const auto side : {wire::Side::kConnects, wire::Side::kAccepts}) {
    if (wire::CheckHello(bytes, "token", side).ok()) {
      LEAT_CHECK(std::ranges::equal(wire::EncodeHello("token", side), bytes));
    }
  }
  Prefix(bytes);
  SameBytes(wire::DecodePushRequest(bytes), bytes);
  SameBytes(wire::DecodePushReply(bytes), bytes);
  return 0;
}
