// The embedded log: topics without a broker.
//
// A topic is a directory with one SQLite database (WAL mode) per partition, with chunks of records. Committed
// records survive kill -9 of any process. Several processes may append to and read from a topic concurrently.
// docs/formats/log.md describes the layout and the tables.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "stream/source.h"
#include "stream/topic_writer.h"

namespace leat::stream {

struct TopicOptions {
  uint32_t partitions = 4;
  // Retention; 0: unlimited. Records at or above the lowest pin of a partition are never removed.
  uint64_t retention_bytes = 0;  // per partition
  Duration retention_time{0};
  // Whether retention applies to partitions that no job has pinned. If false, a job that starts after the
  // bots finds all records.
  bool take_unpinned = false;
  friend bool operator==(const TopicOptions&, const TopicOptions&) = default;
};

// A topic, for people who look after a log.
struct TopicInfo {
  struct Pin {
    std::string owner;      // a job: "name@directory"
    uint64_t retained = 0;  // records that it protects from retention
  };
  std::string topic;
  uint32_t partitions = 0;
  uint64_t records = 0;
  uint64_t bytes = 0;       // size of the records
  uint64_t disk_bytes = 0;  // size of the files
  bool sealed = false;
  std::vector<Pin> pins;  // by owner
};

struct LogSourceOptions {
  // The records of a damaged chunk are read as lost (RecordBatch::lost) instead of failing the read.
  bool quarantine = false;
};

class EmbeddedLog {
 public:
  static constexpr uint32_t kMaxPartitions = 1024;
  // Creates the topic atomically, or accepts an existing one with the same number of partitions (otherwise
  // kFailedPrecondition), whose retention is unchanged. kInvalidArgument if the name is not 1 to 200 of A-Z
  // a-z 0-9 . _ - or begins with a dot.
  static Status Create(const std::string& directory, const std::string& topic, const TopicOptions& options);
  // kNotFound with directory and topic if there is none.
  static Result<std::unique_ptr<Source>> OpenSource(const std::string& directory, const std::string& topic,
                                                    const LogSourceOptions& options = {});
  // The random id that a topic gets when it is made. 0: it was made by an earlier version, and has not been
  // opened by a writer since.
  static Result<uint64_t> ReadId(const std::string& directory, const std::string& topic);
  // All topics in the directory, by name. kNotFound if there is no such directory.
  static Result<std::vector<TopicInfo>> List(const std::string& directory);
};

struct LogWriterOptions {
  // Appended records survive kill -9 of any process. If true, they also survive a power failure, at the cost
  // of one fsync per append. If false, a power failure may lose the last appends but never damages earlier
  // ones.
  bool sync_each_append = false;
  // Free bytes that an append must leave on the disk; 0: 5 % of the disk or 1 GiB, whichever is less.
  uint64_t min_free_bytes = 0;
  // Above this size of a partition's WAL, appends are refused until readers let it be restarted.
  uint64_t max_wal_bytes = 256 << 20;
  // Wall clock in milliseconds, for retention by time; null: the system's.
  int64_t (*now_ms)() = nullptr;
};

// Appends to one topic. Not thread-safe; any number of concurrent writers.
class LogWriter : public TopicWriter {
 public:
  static constexpr size_t kMaxRecordBytes = 16 << 20;

  static Result<std::unique_ptr<LogWriter>> Open(const std::string& directory, const std::string& topic,
                                                 const LogWriterOptions& options = {});
  // In one transaction. Then applies retention. A failure appends nothing: kResourceExhausted (disk),
  // kInvalidArgument (no such partition, record too large), kFailedPrecondition (sealed), kUnavailable
  // (another writer was busy for more than 10 s, or a reader has stopped inside a read and the WAL is too
  // large).
  Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) override = 0;
};

}  // namespace leat::stream
