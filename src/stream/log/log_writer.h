// Appends to a topic of the embedded log (log.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "stream/topic_writer.h"

namespace leat::stream {

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
