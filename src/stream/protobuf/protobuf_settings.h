// The settings of records that are Protobuf messages:
//
//   schema:
//     format: protobuf
//     protobuf: {descriptor: payments.pb, message: shop.Payment}   # framing: none | registry
//
// `descriptor` is a FileDescriptorSet, as `protoc --include_imports --descriptor_set_out` writes it. A job
// keeps the part that it needs in its `resolved:` section.
#pragma once

#include <string>
#include <string_view>

#include "base/config/config.h"

namespace leat::stream {

struct Schema;

struct ProtobufSettings {
  std::string where;    // "job.yaml:5"
  std::string file;     // the descriptor, as in the job file
  std::string message;  // full name
  bool framed = false;  // records have the framing of a schema registry, and then the message's indexes
  // A FileDescriptorSet with the messages and fields that the schema reads; set by UseDescriptor.
  std::string descriptor;
  static ProtobufSettings FromConfig(const Config& config);
};

// Takes what the schema needs from a FileDescriptorSet. Throws std::invalid_argument with the place if it is
// none, or if it lacks the message or a field, or if a field has another type.
void UseDescriptor(std::string_view descriptor, Schema* schema);

}  // namespace leat::stream
