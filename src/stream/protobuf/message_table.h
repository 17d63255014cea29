// Table of the Protobuf decoder's action for each field number, compiled from a descriptor and a schema.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stream/schema.h"

namespace leat::stream {

enum class WireType : uint8_t { kVarint, kFixed64, kBytes, kStartGroup, kEndGroup, kFixed32 };

struct MessageTable {
  static constexpr uint32_t kNone = ~0u;

  // How the bits of a value are read.
  enum class Kind { kInt32, kInt64, kUint32, kUint64, kSint32, kSint64, kBool, kFloat, kDouble, kText };
  // The values of an enum, by number.
  using Enum = std::vector<std::pair<int32_t, std::string>>;

  // A field of a message: one that is read, that leads to one, or that shares a oneof with one.
  struct Entry {
    uint32_t number = 0;
    WireType wire = WireType::kVarint;  // wire type of one value
    bool repeated = false;              // then values may also be packed
    bool utf8 = false;
    uint32_t closed = kNone;       // index of the enum whose unknown values count as unknown fields
    uint32_t slot = kNone;         // slot of its value
    uint32_t node = kNone;         // node of its message, which is read
    std::vector<uint32_t> clears;  // slots of the other members of its oneof
  };
  struct Node {
    std::vector<Entry> entries;   // by number
    std::vector<uint16_t> place;  // 1 + index of the entries with small numbers; 0: none
    uint32_t slot = kNone;        // set while the message is present
  };
  // The value of a field of the schema.
  struct Value {
    Kind kind = Kind::kInt32;
    uint32_t names = kNone;   // index of its enum
    uint32_t parent = kNone;  // slot of the message that has it
    // The meaning of its absence from a message that is present; nothing: the value is missing.
    std::optional<uint64_t> absent;
    std::string absent_text;
  };

  std::vector<Node> nodes;    // the record's message first
  std::vector<Value> values;  // their slots come first
  std::vector<Enum> enums;
  uint32_t slots = 0;

  const Entry* Find(const Node& node, uint32_t number) const;
};

// Compiles the schema's descriptor. Throws std::invalid_argument as UseDescriptor does.
MessageTable CompileTable(const Schema& schema);

}  // namespace leat::stream
