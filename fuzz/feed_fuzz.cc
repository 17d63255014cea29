// Requests, replies and scores of feeds are rejected, or encode to the same bytes again; records are within
// the payload.
#include <algorithm>

#include "base/check.h"
#include "base/fields/testing.h"
#include "run/feed/messages.h"

namespace {

using namespace leat;

void Records(ByteView bytes) {
  if (bytes.empty()) return;
  stream::RecordBatch batch;
  const auto first = std::to_integer<uint32_t>(bytes.front()), count = first & 0x3f;
  batch.wanted.resize(first >> 6);
  if (batch.wanted.size() == 3) batch.wanted[1].kind = stream::Attribute::Kind::kLabel;
  if (!feed::DecodeRecords(bytes.subspan(1), count, &batch).ok()) {
    LEAT_CHECK(batch.size() == 0);
    return;
  }
  LEAT_CHECK(batch.size() == count && batch.offsets.back() == batch.data.size());
  LEAT_CHECK(std::ranges::equal(feed::EncodeRecords(batch), bytes.subspan(1)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  LEAT_CHECK(fields::BytesFault<feed::Request>(bytes).empty());
  LEAT_CHECK(fields::BytesFault<feed::Reply>(bytes).empty());
  LEAT_CHECK(fields::BytesFault<feed::Scores>(bytes).empty());
  Records(bytes);
  return 0;
}
