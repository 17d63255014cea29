// Headers of a group's peers are rejected, or encode to the same bytes again.
#include <algorithm>

#include "base/check.h"
#include "collective/messages.h"

namespace {

using namespace leat;

template <class Message>
void SameBytes(const Result<Message>& message, ByteView bytes) {
  if (message.ok()) LEAT_CHECK(std::ranges::equal(collective::Encode(*message), bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes{reinterpret_cast<const std::byte*>(data), size};
  const auto greet = collective::DecodeGreet(bytes);
  if (greet.ok()) LEAT_CHECK(greet->rank < greet->members);
  SameBytes(greet, bytes);
  SameBytes(collective::DecodePiece(bytes), bytes);
  if (const auto bucket = collective::DecodeBucket(bytes); bucket.ok()) {
    LEAT_CHECK(std::ranges::equal(collective::EncodeBucket(*bucket), bytes));
  }
  SameBytes(collective::DecodeAlive(bytes), bytes);
  const auto abort = collective::DecodeAbort(bytes);
  if (abort.ok()) LEAT_CHECK(abort->code != Code::kOk);
  SameBytes(abort, bytes);
  return 0;
}
