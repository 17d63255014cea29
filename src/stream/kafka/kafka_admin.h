// Topics and consumer groups of a Kafka cluster.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stream/kafka/kafka_client.h"

namespace leat::stream {

// Makes the topic, with the cluster's default for the number of copies. A topic that exists stays as it is.
// Tries again until the timeout while no broker answers.
Status CreateKafkaTopic(const KafkaOptions& options, uint32_t partitions);
// By a client that there is already, made with the same options.
Status CreateKafkaTopic(const KafkaClient& client, const KafkaOptions& options, uint32_t partitions);

struct KafkaTopicSettings {
  bool compacted = false;     // records disappear from the middle
  int64_t retention_ms = -1;  // -1: for ever
};
// kPermissionDenied: the job's user may not see them.
Result<KafkaTopicSettings> DescribeKafkaTopic(const KafkaOptions& options);

// The offsets that a consumer group has committed for these partitions of a topic, without those that have
// none. Offsets of a transaction that is not over are an error, kUnavailable. `options`: of the client.
Result<std::map<uint32_t, uint64_t>> FindCommitted(const KafkaClient& client, const KafkaOptions& options,
                                                   const std::string& group, const std::string& topic,
                                                   const std::vector<uint32_t>& partitions);

}  // namespace leat::stream
