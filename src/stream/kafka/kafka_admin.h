// Topics of a Kafka cluster.
#pragma once

#include <cstdint>
#include <string>

#include "stream/kafka/kafka_client.h"

namespace leat::stream {

// Makes the topic, with the cluster's default for the number of copies. A topic that exists stays as it is.
// Tries again until the timeout while no broker answers.
Status CreateKafkaTopic(const KafkaOptions& options, uint32_t partitions);

struct KafkaTopicSettings {
  bool compacted = false;     // records disappear from the middle
  int64_t retention_ms = -1;  // -1: for ever
};
// kPermissionDenied: the job's user may not see them.
Result<KafkaTopicSettings> DescribeKafkaTopic(const KafkaOptions& options);

}  // namespace leat::stream
