// Appends records to a topic, of the embedded log or of Kafka.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace leat::stream {

struct TopicRecord {
  std::string_view value;
  std::string_view key = {};  // Kafka keeps it with the record; without data(): there is none
};

// Not thread-safe; a topic can have any number of writers.
class TopicWriter {
 public:
  virtual ~TopicWriter() = default;
  // Appends all records to the partition, in this order, and returns the offset of the first. kUnavailable
  // and kResourceExhausted: the same call may succeed later, and appends each record once.
  virtual Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) = 0;
  // The same in two calls, between which the caller can make its next records. Start takes the records, and
  // may return before they are appended. Finish waits until they are, at most for `timeout`, and not longer
  // than Append. After an error of Start, the same Start may succeed later; after one of Finish, the same
  // Start and then Finish. Each record is appended once.
  virtual Status Start(uint32_t partition, std::span<const std::string_view> records) {
    return Append(partition, records).status();
  }
  virtual Status Finish(Duration /*timeout*/) { return {}; }
  // Takes the records, to be appended to the partition in this order, and may return before they are there.
  // Waits while too many are on their way. An error can be that of earlier records; then none of these is
  // appended for sure. A writer is used either by Append, or by Start and Finish, or by Send.
  virtual Status Send(uint32_t partition, std::span<const TopicRecord> records) {
    const std::vector<std::string_view> values = Values(records);
    const auto first = Append(partition, values);
    return first.ok() ? Status() : first.status();
  }
  // Waits until all records that were sent are appended.
  virtual Status Flush() { return {}; }
  // Records that were sent and are not known to be appended.
  virtual uint64_t waiting() const { return 0; }
  // Declares that no record will follow in any partition. Idempotent. Kafka's topics have no such mark.
  virtual Status Seal() = 0;
  virtual uint32_t partitions() const = 0;

 private:
  static std::vector<std::string_view> Values(std::span<const TopicRecord> records) {
    std::vector<std::string_view> values;
    values.reserve(records.size());
    for (const TopicRecord& record : records) values.push_back(record.value);
    return values;
  }
};

// Records that go to a topic together with notes of how far a job is, all or nothing.
//
// A note is an offset for a partition, kept by the servers of the topic and written in the transaction of the
// records. The next process that opens the same transactions finishes or aborts the work of the last one,
// learns how far it came, and makes it fail from then on ("fenced").

// Not thread-safe. All calls block until the servers have answered, at most for a few times the timeout of
// the options.
class TopicTransactions {
 public:
  struct Record {
    std::optional<std::string_view> key;
    std::string_view value;
  };

  using Notes = std::map<uint32_t, uint64_t>;  // offsets by partition

  virtual ~TopicTransactions() = default;
  // The committed notes of these partitions, without those that have none. After an error it must be opened
  // again.
  virtual Result<Notes> Committed(const std::vector<uint32_t>& partitions) = 0;
  // Writes all records and all notes, or nothing. kStale: another process has opened the same transactions;
  // this one is of no use any more. After any other error it must be opened again: whether the transaction
  // was committed is known then.
  virtual Status Write(std::span<const Record> records, const Notes& notes) = 0;
};

}  // namespace leat::stream
