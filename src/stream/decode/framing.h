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

// Of a record that is framed.
inline uint32_t SchemaIdOf(ByteView record) {
  uint32_t id = 0;
  for (size_t i = 1; i < kFrameBytes; ++i) id = id << 8 | static_cast<uint32_t>(record[i]);
  return id;
}

// Why a record is not framed.
std::string ReasonOfFrame(ByteView record);

}  // namespace leat::stream
