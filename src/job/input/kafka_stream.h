// A topic of a Kafka cluster as the source of a job: `stream: {topic: …, kafka: {…}}`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/config/config.h"
#include "base/status.h"
#include "job/input/label_topic.h"
#include "stream/bots/bots.h"
#include "stream/decode/decoder.h"
#include "stream/kafka/kafka_client.h"
#include "stream/kafka/kafka_transactions.h"
#include "stream/secret.h"
#include "stream/source.h"
#include "stream/topic_writer.h"

namespace leat::job {

struct SourceIdentity;

struct KafkaStream {
  // Without the values of secrets, which each role reads from its own environment or files when it opens the
  // topic. A job names where they are; it never has them.
  stream::KafkaOptions options;
  std::vector<stream::Secret> secrets;  // settings of librdkafka
  // "earliest", "latest", or a time in RFC 3339: where the job begins. The offsets that this has meant when
  // the job was made are options.start.
  std::string start = "earliest";
  // Whether a job refuses to resume if retention has removed records that it has not trained, and stops when
  // it meets some. If false, it skips them and says how many.
  bool fail_on_data_loss = true;
  bool bounded = false;                    // the job ends where the topic ended when it was made: options.end
  std::optional<stream::BotsConfig> bots;  // they write the topic …
  uint32_t partitions = 4;                 // … which is made with so many if there is none
  // The job reads partitions that are added while it exists, up to this number. 0: twice as many as the topic
  // had when the job was made, and at least 8 more.
  uint32_t max_partitions = 0;
  std::string dead_letters;          // the topic for them; empty: they are kept in the job's directory
  bool live = false;                 // without bots: the job waits for records in an empty topic
  std::optional<LabelTopic> labels;  // another topic of the cluster, whose labels come later

  std::string Describe() const;  // "Kafka topic 'payments'"
  SourceIdentity Identity() const;
  Result<std::vector<std::string>> Identify() const;
  Status Prepare() const;
  Result<std::unique_ptr<stream::Source>> Open() const;
  Status CheckEmpty() const;
  Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const;
  Result<std::unique_ptr<stream::DeadLetterSink>> OpenDeadLetters() const;
  // For the predictions of a publishing group, in a topic that is made if it does not exist. `job`: its name.
  Result<std::unique_ptr<stream::KafkaTransactions>> OpenPredictions(const std::string& to,
                                                                     const std::string& job,
                                                                     uint32_t group) const;
  // Makes the topic unless it exists, with so many partitions; 0: with `partitions`.
  Status Create(uint32_t count) const;
  // Refuses a topic that loses records in its middle, or is divided otherwise than the topic of its labels.
  // `warning`: set if a topic loses records sooner than a job with such checkpoints may need them again.
  Status CheckTopic(double checkpoint_interval_s, std::string* warning) const;
  // Offsets that `start` and `bounded` mean now, for options.
  struct Bounds {
    std::vector<uint64_t> start, end;
  };
  Result<Bounds> FindBounds() const;
  // The ids of the brokers that have each partition.
  Result<std::vector<std::vector<int32_t>>> Replicas() const;
};

// Milliseconds since 1970 of a time in RFC 3339, or nothing if the text is none.
std::optional<int64_t> ParseTime(const std::string& text);

// The settings of `stream:` that a Kafka topic has. Throws std::invalid_argument with the line and the
// values.
KafkaStream ReadKafkaStream(const Config& stream);

}  // namespace leat::job
