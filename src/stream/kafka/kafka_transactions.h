// Transactions with a topic of Kafka. A note is the offset of a consumer group for a partition, committed in
// the transaction of the records; a transactional id fences the processes that opened it before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stream/kafka/kafka_client.h"
#include "stream/topic_transactions.h"

namespace leat::stream {

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
