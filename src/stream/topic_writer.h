// Appends records to a topic, of the embedded log or of Kafka.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"

namespace leat::stream {

// Not thread-safe; a topic can have any number of writers.
class TopicWriter {
 public:
  virtual ~TopicWriter() = default;
  // Appends all records to the partition, in this order, and returns the offset of the first. kUnavailable
  // and kResourceExhausted: the same call may succeed later, and appends each record once.
  virtual Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) = 0;
  // Declares that no record will follow in any partition. Idempotent. Kafka's topics have no such mark.
  virtual Status Seal() = 0;
  virtual uint32_t partitions() const = 0;
};

}  // namespace leat::stream
