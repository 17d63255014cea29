// Records that go to a topic together with notes of how far a job is, all or nothing.
//
// A note is the offset of a consumer group for a partition, committed in the transaction of the records.
// The next process that opens the same transactional id finishes or aborts the work of the last one, learns
// how far it came, and makes it fail from then on ("fenced").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/kafka/kafka_client.h"

namespace leat::stream {

struct KafkaTransactionOptions {
  KafkaOptions kafka;       // its topic takes the records
  uint32_t partitions = 0;  // partitions of that topic, which is made unless it exists; 0: it exists
  std::string id;           // transactional id
  std::string group;        // has the notes …
  std::string topic;        // … for this topic
};

// Not thread-safe. Uses one client of librdkafka, whatever the number of partitions. All calls block until
// the brokers have answered, at most for a few times the timeout of the options.
class KafkaTransactions {
 public:
  struct Record {
    std::optional<std::string_view> key;
    std::string_view value;
  };

  using Notes = std::map<uint32_t, uint64_t>;  // offsets by partition

  // kUnavailable: may succeed later.
  static Result<std::unique_ptr<KafkaTransactions>> Open(const KafkaTransactionOptions& options);
  virtual ~KafkaTransactions() = default;
  // The committed notes of these partitions, without those that have none. After an error it must be opened
  // again.
  virtual Result<Notes> Committed(const std::vector<uint32_t>& partitions) = 0;
  // Writes all records and all notes, or nothing. kStale: another process has opened the id; this one is of
  // no use any more. After any other error it must be opened again: whether the transaction was committed is
  // known then.
  virtual Status Write(std::span<const Record> records, const Notes& notes) = 0;
};

}  // namespace leat::stream
