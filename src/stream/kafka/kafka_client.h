// Connections to a Kafka cluster: settings, which are librdkafka's, and what its errors are to Leat.
#pragma once

#include <librdkafka/rdkafka.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace leat::stream {

struct KafkaOptions {
  std::string topic;
  // librdkafka's, by name: "bootstrap.servers" and any other that CheckKafkaSetting allows.
  std::map<std::string, std::string> settings;
  Duration timeout = std::chrono::seconds(30);  // of one request, and of one read
  // For each partition that the job can read: where it begins and ends. Those that the topic does not have
  // are empty until they are added. Empty: all partitions that there are, from the first record, without an
  // end.
  std::vector<uint64_t> start, end;
  // The topic is complete with so many records in all, which bots write; 0: never.
  uint64_t records = 0;
  // What retention has removed before it was read is absent; otherwise a read of it fails.
  bool skip_expired = false;
};

// kInvalidArgument if a job may not set it, or librdkafka does not know it.
Status CheckKafkaSetting(const std::string& name);
// Or if this is no value of it.
Status CheckKafkaSetting(const std::string& name, const std::string& value);
// Its value must not be shown: a password or a private key.
bool IsKafkaSecret(std::string_view name);

struct KafkaDeleter {
  void operator()(rd_kafka_t* client) const { rd_kafka_destroy(client); }
  void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
  void operator()(rd_kafka_topic_t* topic) const { rd_kafka_topic_destroy(topic); }
  void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
  void operator()(const rd_kafka_metadata_t* metadata) const { rd_kafka_metadata_destroy(metadata); }
};
template <class T>
using KafkaPtr = std::unique_ptr<T, KafkaDeleter>;

// A client of this kind with the job's settings and then `own`, which a job may not set. Its log goes to the
// program's. It connects in the background. A producer's delivery reports are events of its main queue.
Result<KafkaPtr<rd_kafka_t>> MakeKafkaClient(rd_kafka_type_t type, const KafkaOptions& options,
                                             const std::map<std::string, std::string>& own);

// kUnavailable: a later attempt may succeed. `what` says what was tried.
Status KafkaError(rd_kafka_resp_err_t error, const std::string& what);

int Milliseconds(Duration duration);

}  // namespace leat::stream
