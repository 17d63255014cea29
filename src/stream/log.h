// The embedded log: topics without a broker (row I2).
//
// A topic is a directory with one SQLite database (WAL mode) for each partition, holding chunks of records; what is
// committed survives kill -9 of any process. Several processes may append to and read from one topic at a
// time. Layout and schema of the tables: docs/formats/log.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "stream/source.h"

namespace leat::stream {

struct TopicOptions {
  uint32_t partitions = 4;
  // Retention; 0 = keep for ever. Nothing at or above the lowest pin is ever taken.
  uint64_t retention_bytes = 0;   // of a partition
  Duration retention_time{0};
  friend bool operator==(const TopicOptions&, const TopicOptions&) = default;
};

class EmbeddedLog {
 public:
  // Makes the topic, or opens it when it is there already with the same number of partitions (kFailedPrecondition otherwise).
  static Status Create(const std::string& directory, const std::string& topic, const TopicOptions& options);
  // kNotFound, naming directory and topic, when there is none.
  static Result<std::unique_ptr<Source>> OpenSource(const std::string& directory, const std::string& topic);
};

// Appends to one topic. Not thread-safe; any number of writers at a time.
class LogWriter {
 public:
  static Result<std::unique_ptr<LogWriter>> Open(const std::string& directory, const std::string& topic);
  virtual ~LogWriter() = default;
  // Appends all records to the partition in one transaction, returns the offset of the first. kResourceExhausted, nothing
  // appended, when the disk would be left with less than 5 % or 1 GiB free, whichever is less.
  virtual Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) = 0;
  // No record will follow in any partition. Idempotent.
  virtual Status Seal() = 0;
  virtual uint32_t partitions() const = 0;
};

}  // namespace leat::stream
