// Appends to a topic of a Kafka cluster with the idempotent producer: a record sent again is appended once.
#pragma once

#include <memory>

#include "stream/kafka/kafka_client.h"
#include "stream/topic_writer.h"

namespace leat::stream {

// kNotFound: there is no such topic.
Result<std::unique_ptr<TopicWriter>> OpenKafkaWriter(const KafkaOptions& options);

}  // namespace leat::stream
