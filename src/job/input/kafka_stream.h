// A topic of a Kafka cluster as the source of a job: `stream: {topic: …, kafka: {…}}`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config/config.h"
#include "base/status.h"
#include "job/input/stream_spec.h"
#include "stream/kafka/kafka_client.h"
#include "stream/schema.h"
#include "stream/source.h"

namespace leat::job {

// Labels that come later, in another topic of the cluster: `labels:` of a stream of Kafka.
struct LabelTopic {
  std::string topic;
  int64_t window_ms = 0;                    // from an event's time to that of its label, at most
  Duration idle = std::chrono::minutes(1);  // without new labels, events are not held back for longer
  stream::Schema::LabelRecords records;

  // Throws std::invalid_argument with the line and the values.
  static LabelTopic FromConfig(const Config& labels);
  // Part of what the offsets of a checkpoint refer to.
  std::string Identity() const;  // "labels of chargebacks within 3600 s"
  // The label topic as a topic of its own, whole.
  stream::KafkaOptions OptionsLike(const stream::KafkaOptions& events) const;
};

class KafkaStream final : public StreamSpec {
 public:
  // Throws std::invalid_argument with the line and the values.
  explicit KafkaStream(const Config& config);

  const StreamTraits& traits() const override { return KafkaKind().traits; }
  std::string Describe() const override { return options.Where(); }  // "Kafka topic 'payments'"
  SourceIdentity Identity() const override;
  std::vector<std::string> topics() const override;
  const stream::Schema::LabelRecords* late_labels() const override {
    return labels ? &labels->records : nullptr;
  }
  void DropLateLabels() override { labels.reset(); }
  LossRules loss_rules() const override;
  StreamBounds bounds() const override { return {.start = options.start, .end = options.end}; }
  void SetBounds(StreamBounds bounds) override;
  void ReadNear(const std::string& zone) override { options.settings.try_emplace("client.rack", zone); }
  Result<std::vector<std::string>> Identify() const override;
  Status Prepare() const override;
  // Refuses a topic that loses records in its middle, or is divided otherwise than the topic of its labels.
  Status Check(double checkpoint_interval_s, std::string* warning) const override;
  Result<StreamBounds> FindBounds() const override;
  Status CheckEmpty() const override;
  Result<std::vector<std::vector<int32_t>>> Replicas() const override;
  Result<std::unique_ptr<stream::Source>> Open() const override;
  Result<std::unique_ptr<stream::Source>> OpenEvents(const std::string& group) const override;
  Result<std::unique_ptr<stream::TopicWriter>> OpenWriter() const override;
  Status Create(uint32_t count) const override;  // 0: with `partitions`
  Result<std::unique_ptr<stream::DeadLetterSink>> OpenDeadLetters() const override;
  Result<std::unique_ptr<stream::TopicTransactions>> OpenPredictions(const std::string& to,
                                                                     const std::string& job,
                                                                     uint32_t group) const override;

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
  bool bounded = false;     // the job ends where the topic ended when it was made: options.end
  uint32_t partitions = 4;  // bots' topic is made with so many if there is none
  // The job reads partitions that are added while it exists, up to this number. 0: twice as many as the topic
  // had when the job was made, and at least 8 more.
  uint32_t max_partitions = 0;
  std::string dead_letters;          // the topic for them; empty: they are kept in the job's directory
  bool live = false;                 // without bots: the job waits for records in an empty topic
  std::optional<LabelTopic> labels;  // another topic of the cluster, whose labels come later

 private:
  void ReadLabels(const Config& config);
  // The options with the values of the secrets.
  Result<stream::KafkaOptions> Complete() const;
};

// Milliseconds since 1970 of a time in RFC 3339, or nothing if the text is none.
std::optional<int64_t> ParseTime(const std::string& text);

}  // namespace leat::job
