// Appends records to a topic, of the embedded log or of Kafka.
#pragma once

#include <cstdint>
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

}  // namespace leat::stream
