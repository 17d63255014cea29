// The head of a safetensors file: which tensors it holds, and where (docs/formats/checkpoint.md). Pure.
//
//   file   = length:u64 json data
//   json   = { "__metadata__": {text: text}, name: {"dtype": "F32", "shape": [n], "data_offsets": [b, e]} … }
//
// with spaces behind the JSON, so that data begins at a multiple of 64. The tensors fill data without gaps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::checkpoint {

// Of one f32 tensor of rank 1, in bytes behind the head.
struct TensorInfo {
  std::string name;
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t elements() const { return (end - begin) / 4; }
  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

struct SafetensorsHeader {
  static constexpr uint64_t kMaxBytes = 64 << 20;

  std::map<std::string, std::string> metadata;
  std::vector<TensorInfo> tensors;  // in the order of their places
};

// The length and the JSON, padded. kInvalidArgument when a name is not UTF-8 or there are too many.
Result<std::string> EncodeSafetensorsHeader(const SafetensorsHeader& head);

// `json` as the file has it, `data_bytes` what is behind it. kDataLoss, beginning with `path`, when it is not
// well-formed or the tensors do not fill the data exactly.
Result<SafetensorsHeader> ParseSafetensorsHeader(ByteView json, uint64_t data_bytes, const std::string& path);

}  // namespace leat::checkpoint
