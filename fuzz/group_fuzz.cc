// Headers of a group's peers are rejected, or encode to the same bytes again.
#include "base/check.h"
#include "base/fields/testing.h"
#include "train/collective/port.h"

using namespace leat;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes{reinterpret_cast<const std::byte*>(data), size};
  LEAT_CHECK((fields::InputFault<collective::Greet, collective::PieceHeader, collective::BucketHeader,
                                 collective::Alive, collective::AbortMessage>(bytes)
                  .empty()));
  if (const auto greet = fields::Decode<collective::Greet>(bytes, "greeting"); greet.ok())
    LEAT_CHECK(greet->rank < greet->members);
  if (const auto abort = fields::Decode<collective::AbortMessage>(bytes, "end"); abort.ok())
    LEAT_CHECK(!abort->why.ok());
  return 0;
}
