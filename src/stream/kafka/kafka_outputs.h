// Writers to topics of Kafka: events, dead letters, predictions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stream/decode/decoder.h"
#include "stream/kafka/kafka_client.h"
#include "stream/topic_writer.h"

namespace leat::stream {

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
