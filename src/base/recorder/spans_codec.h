// The bytes in which a role sends the spans that it has recorded. Pure.
//
//   chunk = version:u8 track*
//   track = name:text count:varint span*             name: length:u8 bytes
//   span  = kind:u8 end:zigzag length:varint peer:varint number:varint bytes:varint busy:varint
//
// Times are nanoseconds; `end` is the difference from the end of the span before it, in the chunk. varint and
// zigzag: base/encoding/varint.h. Chunks may be put one after the other: no name is so long that a track
// begins like a version.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "base/recorder/recorder.h"
#include "base/status.h"

namespace leat::timeline {

// Limit of a chunk that a role sends; a receiver refuses larger ones.
inline constexpr size_t kMaxChunkBytes = 256 << 10;

// As few chunks as possible, each of at most kMaxChunkBytes.
std::vector<Bytes> EncodeSpans(const std::vector<TrackSpans>& tracks);
// Decodes chunks, at least one. kDataLoss for anything that EncodeSpans does not write.
Result<std::vector<TrackSpans>> DecodeSpans(ByteView chunks);

}  // namespace leat::timeline
