// Spans that are read are written as the same ones.
#include "base/check.h"
#include "base/recorder/recorder.h"

using namespace leat::timeline;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tracks = DecodeSpans({reinterpret_cast<const std::byte*>(data), size});
  if (!tracks.ok()) return 0;
  std::vector<TrackSpans> again;
  for (const leat::Bytes& chunk : EncodeSpans(*tracks)) {
    const auto part = DecodeSpans(chunk);
    LEAT_CHECK(part.ok());
    again.insert(again.end(), part->begin(), part->end());
  }
  // A track that has no spans is left out, one that several chunks have is divided.
  std::vector<Span> before, after;
  for (const auto& track : *tracks) before.insert(before.end(), track.spans.begin(), track.spans.end());
  for (const auto& track : again) after.insert(after.end(), track.spans.begin(), track.spans.end());
  LEAT_CHECK(before == after);
  return 0;
}
