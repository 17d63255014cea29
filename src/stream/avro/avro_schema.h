// Avro schemas (specification 1.11): the JSON text of an .avsc file as a graph of types.
//
// A schema is data from outside: sizes, depth and the number of types are limited, and a record that would
// contain itself without an end is refused.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat::stream {

struct AvroType {
  enum class Kind : uint8_t {
    kNull,
    kBoolean,
    kInt,
    kLong,
    kFloat,
    kDouble,
    kBytes,
    kString,
    kRecord,
    kEnum,
    kArray,
    kMap,
    kUnion,
    kFixed
  } kind = Kind::kNull;
  static constexpr uint64_t kVaries = ~uint64_t{0};

  std::string name;  // name of a record, enum or fixed, with its namespace
  // Record: the names of the fields. Enum: the symbols.
  std::vector<std::string> names;
  // Indexes of other types. Record: of the fields. Union: of the branches. Array, map: of the only item.
  std::vector<uint32_t> parts;
  uint64_t bytes = kVaries;  // size of each value in a record, if all have the same
  bool decimal = false;      // bytes, fixed: a whole number, times 10^-scale
  uint32_t scale = 0;

  // "a string", "the enum 'Kind'"
  std::string Describe() const;
};

struct AvroSchema {
  static constexpr size_t kMaxText = size_t{1} << 20;
  static constexpr size_t kMaxTypes = 4096;
  static constexpr size_t kMaxDepth = 64;  // depth of the JSON

  // kDataLoss with the reason.
  static Result<AvroSchema> Parse(std::string_view json);

  std::vector<AvroType> types;
  uint32_t root = 0;
};

// The text without blanks between its tokens. kDataLoss if it is not JSON.
Result<std::string> MinifyJson(std::string_view json);

}  // namespace leat::stream
