// The key of a record that is published, and the partition that it belongs to.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "stream/csv/split.h"

namespace leat::stream {

// Finds the value of one field in a record. Not thread-safe.
class KeyReader {
 public:
  virtual ~KeyReader() = default;
  // The field's text; a number as it is spelled. Nothing if the record has no such field, or cannot be read.
  // The text is valid until the next call. RecordBatch::kPadding bytes after the record are readable.
  virtual std::optional<std::string_view> Find(ByteView record) = 0;
};

// `field` may be a path into nested objects: "customer.id".
std::unique_ptr<KeyReader> MakeJsonKeyReader(const std::string& field);
std::unique_ptr<KeyReader> MakeCsvKeyReader(size_t column, const CsvDialect& dialect);

// The partition that Kafka's clients choose for this key (the default of the Java client).
uint32_t PartitionOfKey(std::string_view key, uint32_t partitions);

}  // namespace leat::stream
