// Headers of a group's peers are rejected, or encode to the same bytes again.
#include <algorithm>

#include "base/check.h"
#include "collective/messages.h"
#include "fields/testing.h"

using namespace leat;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes{reinterpret_cast<const std::byte*>(data), size};
  LEAT_CHECK((fields::InputFault<collective::Greet, collective::BucketHeader, collective::Alive,
                                 collective::AbortMessage>(bytes)
                  .empty()));
  if (const auto greet = fields::Decode<collective::Greet>(bytes, "greeting"); greet.ok())
    LEAT_CHECK(greet->rank < greet->members);
  if (const auto abort = fields::Decode<collective::AbortMessage>(bytes, "end"); abort.ok())
    LEAT_CHECK(!abort->why.ok());
  if (const auto piece = collective::DecodePiece(bytes); piece.ok())
    LEAT_CHECK(std::ranges::equal(collective::Encode(*piece), bytes));
  return 0;
}
