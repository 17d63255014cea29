// Topics of Kafka: as sources, and what writes to them: events, dead letters, predictions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "stream/decode/decoder.h"
#include "stream/kafka/kafka_client.h"
#include "stream/source.h"
#include "stream/topic_writer.h"

namespace leat::stream {

// A topic as a source. Any number of them can read any partition: there is no consumer
// group, and none has a position that others see.
//
// Only committed records exist (`read_committed`). A partition ends at its last stable offset, so that what
// lies before it never changes. Offsets without a record, which belong to transaction markers and aborted
// transactions, are RecordBatch::absent.
//
// Asks the cluster for the topic's partitions, with retries until the timeout. kNotFound: there is no such
// topic; kUnavailable names the brokers that do not answer.
//
// Read keeps the connection's prefetched records. A read that continues the last one of its partition, or
// begins a little later, takes them; any other read asks the broker again.
Result<std::unique_ptr<TimedSource>> OpenKafka(const KafkaOptions& options);

// The partitions that the topic has now.
Result<uint32_t> CountKafkaPartitions(const KafkaOptions& options);

// The ids of the brokers that have a copy of each partition, as of now.
Result<std::vector<std::vector<int32_t>>> FindKafkaReplicas(const KafkaOptions& options);

// Where each partition of the topic begins and ends now, whatever the job reads of it, or where its records
// from this moment on begin (in milliseconds since 1970).
struct KafkaOffsets {
  std::vector<uint64_t> begin, end;
};
Result<KafkaOffsets> FindKafkaOffsets(const KafkaOptions& options);
Result<std::vector<uint64_t>> FindKafkaOffsets(const KafkaOptions& options, int64_t since_ms);

// Appends to a topic of a Kafka cluster with the idempotent producer: a record sent again is appended once.

// kNotFound: there is no such topic.
Result<std::unique_ptr<TopicWriter>> OpenKafkaWriter(const KafkaOptions& options);

// Dead letters as records of a Kafka topic.
//
// A record has the bytes and the key of the original one, and headers that say where it was and why it is
// dead: `leat.topic`, `leat.partition`, `leat.offset`, `leat.reason`, all text. Splits that are read again
// after a failure publish theirs again.

// `options.topic` is where they go. `from`: the topic that they come from.
Result<std::unique_ptr<DeadLetterSink>> OpenKafkaDeadLetters(const KafkaOptions& options, std::string from);

// Transactions with a topic of Kafka. A note is the offset of a consumer group for a partition, committed in
// the transaction of the records; a transactional id fences the processes that opened it before.

struct KafkaTransactionOptions {
  KafkaOptions kafka;       // its topic takes the records
  uint32_t partitions = 0;  // partitions of that topic, which is made unless it exists; 0: it exists
  std::string id;           // transactional id
  std::string group;        // has the notes …
  std::string topic;        // … for this topic
};

// Uses one client of librdkafka, whatever the number of partitions. kUnavailable: may succeed later.
Result<std::unique_ptr<TopicTransactions>> OpenKafkaTransactions(const KafkaTransactionOptions& options);

}  // namespace leat::stream
