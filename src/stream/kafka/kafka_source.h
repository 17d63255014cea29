// A topic of a Kafka cluster as a source. Any number of them can read any partition: there is no consumer
// group, and none has a position that others see.
//
// Only committed records exist (`read_committed`). A partition ends at its last stable offset, so that what
// lies before it never changes. Offsets without a record, which belong to transaction markers and aborted
// transactions, are RecordBatch::absent.
#pragma once

#include <memory>
#include <vector>

#include "stream/kafka/kafka_client.h"
#include "stream/source.h"

namespace leat::stream {

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

}  // namespace leat::stream
