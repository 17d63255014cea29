// The framing of records that serializers for a schema registry write: a byte 0, then the id of a schema in 4
// bytes, the highest first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/bytes.h"

namespace leat::stream {

inline constexpr size_t kFrameBytes = 5;

inline bool IsFramed(ByteView record) {
  return record.size() >= kFrameBytes && record[0] == std::byte{0};
}

// The schema's id in a framed record.
inline uint32_t SchemaIdOf(ByteView record) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(record[i]); };
  return byte(1) << 24 | byte(2) << 16 | byte(3) << 8 | byte(4);
}

// Why a record is not framed.
std::string ReasonOfFrame(ByteView record);

}  // namespace leat::stream
