// The embedded log: topics without a broker.
//
// A topic is a directory with one SQLite database (WAL mode) for each partition, holding chunks of records;
// what is committed survives kill -9 of any process. Several processes may append to and read from one topic
// at a time. Layout and schema of the tables: docs/formats/log.md.
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
  // Retention; 0 = keep for ever. Nothing at or above the lowest pin of a partition is ever taken.
  uint64_t retention_bytes = 0;  // of a partition
  Duration retention_time{0};
  // Whether retention may take records of a partition that no job has pinned. Off, a job that comes first
  // after the bots finds everything.
  bool take_unpinned = false;
  friend bool operator==(const TopicOptions&, const TopicOptions&) = default;
};

class EmbeddedLog {
 public:
  static constexpr uint32_t kMaxPartitions = 1024;
  // Makes the topic, whole or not at all, or finds it there already with the same number of partitions
  // (kFailedPrecondition otherwise; the retention that it was made with stays). kInvalidArgument when the
  // name is not 1 to 200 of A-Z a-z 0-9 . _ - or begins with a dot.
  static Status Create(const std::string& directory, const std::string& topic, const TopicOptions& options);
  // kNotFound, naming directory and topic, when there is none.
  static Result<std::unique_ptr<Source>> OpenSource(const std::string& directory, const std::string& topic);
};

struct LogWriterOptions {
  // What is appended survives kill -9 of any process. With this on, it survives a power cut too, at one fsync
  // for each append; without, a power cut may take the last appends, never damage what stays.
  bool sync_each_append = false;
  // Free bytes that an append must leave on the disk; 0 = 5 % of the disk or 1 GiB, whichever is less.
  uint64_t min_free_bytes = 0;
  // Wall clock in milliseconds, for retention by time; null = the system's.
  int64_t (*now_ms)() = nullptr;
};

// Appends to one topic. Not thread-safe; any number of writers at a time.
class LogWriter {
 public:
  static constexpr size_t kMaxRecordBytes = 16 << 20;

  static Result<std::unique_ptr<LogWriter>> Open(const std::string& directory, const std::string& topic,
                                                 const LogWriterOptions& options = {});
  virtual ~LogWriter() = default;
  // Appends all records to the partition in one transaction, returns the offset of the first; then lets
  // retention take what it may. Nothing is appended when it fails: kResourceExhausted (disk),
  // kInvalidArgument (no such partition, record too large), kFailedPrecondition (sealed), kUnavailable
  // (another writer for longer than 10 s).
  virtual Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) = 0;
  // No record will follow in any partition. Idempotent.
  virtual Status Seal() = 0;
  virtual uint32_t partitions() const = 0;
};

}  // namespace leat::stream
