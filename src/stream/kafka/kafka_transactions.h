// Records that go to a topic together with a note of how far a job is, all or nothing.
//
// The note is an offset of a consumer group, committed in the transaction of the records. Whoever opens the
// same transactional id next finishes or aborts what the last one has begun, learns how far it came, and
// makes the last one fail from then on ("fenced").
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stream/kafka/kafka_client.h"

namespace leat::stream {

struct KafkaTransactionOptions {
  KafkaOptions kafka;  // its topic takes the records
  std::string id;      // transactional id
  std::string group;   // has the note …
  std::string topic;   // … for this topic
  uint32_t partition = 0;
};

// Not thread-safe. All calls block until the brokers have answered, at most for the timeout of the options.
class KafkaTransactions {
 public:
  struct Record {
    std::optional<std::string_view> key;
    std::string_view value;
  };

  // kUnavailable: may succeed later.
  static Result<std::unique_ptr<KafkaTransactions>> Open(const KafkaTransactionOptions& options);
  virtual ~KafkaTransactions() = default;
  // The note of the last transaction that was committed, if there is one.
  virtual std::optional<uint64_t> committed() const = 0;
  // Writes all records and the note `offset`, or nothing. kStale: another process has opened the id; this one
  // is of no use any more. After any other error it must be opened again: whether the transaction was
  // committed is known then.
  virtual Status Write(std::span<const Record> records, uint64_t offset) = 0;
};

}  // namespace leat::stream
