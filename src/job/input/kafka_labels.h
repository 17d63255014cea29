// Labels that come later, in another topic of the cluster: `labels:` of a stream of Kafka.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/config/config.h"
#include "base/status.h"
#include "stream/kafka/kafka_client.h"
#include "stream/schema.h"
#include "stream/source.h"

namespace leat::job {

struct LabelTopic {
  std::string topic;
  int64_t window_ms = 0;                    // from an event's time to that of its label, at most
  Duration idle = std::chrono::minutes(1);  // without new labels, events are not held back for longer
  stream::Schema::LabelRecords records;

  // Throws std::invalid_argument with the line and the values.
  static LabelTopic FromConfig(const Config& labels);
  std::string Describe() const;  // "Kafka topic 'chargebacks'"
  // Part of what the offsets of a checkpoint refer to.
  std::string Identity() const;  // "labels of chargebacks within 3600 s"
  // The events of the topic that `events` describes, joined with the labels.
  Result<std::unique_ptr<stream::Source>> Open(const stream::KafkaOptions& events) const;
  // Refuses topics that are not divided alike.
  Status CheckCopartitioned(const stream::KafkaOptions& events) const;
  // The label topic as a topic of its own, whole.
  stream::KafkaOptions OptionsLike(const stream::KafkaOptions& events) const;
};

}  // namespace leat::job
