// The embedded log: topics without a broker.
//
// A topic is a directory with one SQLite database (WAL mode) per partition, with chunks of records. Committed
// records survive kill -9 of any process. Several processes may append to and read from a topic concurrently.
// docs/formats/log.md describes the layout and the tables.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "stream/source.h"

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

}  // namespace leat::stream
