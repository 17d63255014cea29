// The header of a safetensors file: its tensors and their offsets (docs/formats/checkpoint.md). Pure.
//
//   file   = length:u64 json data
//   json   = { "__metadata__": {text: text}, name: {"dtype": "F32", "shape": [n], "data_offsets": [b, e]} … }
//   dtype  = F32, F64 or U64
//
// The JSON is padded with spaces, so that data begins at a multiple of 64. The tensors fill data without
// gaps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/fields/fields.h"
#include "base/status.h"

namespace leat::checkpoint {

// The types of numbers in shards.
enum class ShardType : uint8_t { kF32, kF64, kU64 };
LEAT_ENUM(ShardType, (kF32, "F32"), (kF64, "F64"), (kU64, "U64"));
inline uint64_t SizeOf(ShardType type) {
  return type == ShardType::kF32 ? 4 : 8;
}

// A tensor of rank 1; its offsets are bytes from the end of the header.
struct TensorInfo {
  std::string name;
  uint64_t begin = 0;
  uint64_t end = 0;
  ShardType type = ShardType::kF32;
  uint64_t elements() const { return (end - begin) / SizeOf(type); }
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

struct SafetensorsHeader {
  static constexpr uint64_t kMaxBytes = 64 << 20;

  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  // in the order of their offsets
};

// The length and the padded JSON. kInvalidArgument if a name is not UTF-8 or there are too many tensors.
Result<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& head);

// Parses the JSON of a file with `data_bytes` bytes of data. kDataLoss, with a message that begins with
// `path`, if it is malformed or the tensors do not fill the data exactly.
Result<SafetensorsHeader> ParseSafetensorsHeader(ByteView json, uint64_t data_bytes, const std::string& path);

}  // namespace leat::checkpoint
