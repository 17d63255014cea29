// Connections to a Kafka cluster: settings, which are librdkafka's, and what its errors are to Leat.
#pragma once

#include <librdkafka/rdkafka.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace leat::stream {

// Until all brokers know a topic that was made.
inline constexpr Duration kNewTopic = std::chrono::seconds(5);

struct KafkaOptions {
  std::string topic;
  // librdkafka's, by name: "bootstrap.servers" and any other that CheckKafkaSetting allows.
  std::map<std::string, std::string> settings;
  Duration timeout = std::chrono::seconds(30);  // for one request, and for one read
  // Begin and end of each partition that the job can read, by number. Partitions that the topic does not have
  // yet are empty until they are added. No entries: all partitions that there are, from the first record,
  // without an end.
  std::vector<uint64_t> start, end;
  // The topic is complete with so many records in all, which bots write; 0: never.
  uint64_t records = 0;
  // Records that retention has removed before they were read are absent; if false, such a read fails.
  bool skip_expired = false;
  // A consumer group for which the source commits offsets with the connections that it has anyway. Empty:
  // none.
  std::string group;
  // Memory for records that a source fetches ahead, over all partitions, about.
  uint64_t prefetch_bytes = uint64_t{256} << 20;

  // "Kafka topic 'payments'", "Kafka topic 'payments' partition 3"
  std::string Where() const { return "Kafka topic '" + topic + "'"; }
  std::string Where(uint32_t partition) const { return Where() + " partition " + std::to_string(partition); }
};

// kInvalidArgument if a job may not set it, or librdkafka does not know it.
Status CheckKafkaSetting(const std::string& name);
// Or if this is no value of it.
Status CheckKafkaSetting(const std::string& name, const std::string& value);
// Its value must not be shown: a password or a private key.
bool IsKafkaSecret(std::string_view name);

struct KafkaDeleter {
  void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
  void operator()(rd_kafka_topic_t* topic) const { rd_kafka_topic_destroy(topic); }
  void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
  void operator()(const rd_kafka_metadata_t* metadata) const { rd_kafka_metadata_destroy(metadata); }
  void operator()(rd_kafka_consumer_group_metadata_t* group) const {
    rd_kafka_consumer_group_metadata_destroy(group);
  }
  void operator()(rd_kafka_event_t* event) const { rd_kafka_event_destroy(event); }
  void operator()(rd_kafka_error_t* error) const { rd_kafka_error_destroy(error); }
  void operator()(rd_kafka_NewTopic_t* topic) const { rd_kafka_NewTopic_destroy(topic); }
  void operator()(rd_kafka_AdminOptions_t* options) const { rd_kafka_AdminOptions_destroy(options); }
  void operator()(rd_kafka_ConfigResource_t* resource) const { rd_kafka_ConfigResource_destroy(resource); }
  void operator()(rd_kafka_ListConsumerGroupOffsets_t* request) const {
    rd_kafka_ListConsumerGroupOffsets_destroy(request);
  }
};
template <class T>
using KafkaPtr = std::unique_ptr<T, KafkaDeleter>;

// A client of librdkafka. It connects in the background. Thread-safe, as librdkafka is.
//
// Its end waits for offsets that are being committed, but not for ever: librdkafka may never end the client
// of a topic that was deleted and made again. Such a client is left behind, with its threads.
class KafkaClient {
 public:
  // With the job's settings and then `own`, which a job may not set. The delivery reports of a producer
  // without transactions are events of its main queue.
  static Result<KafkaClient> Make(rd_kafka_type_t type, const KafkaOptions& options,
                                  const std::map<std::string, std::string>& own);
  KafkaClient() = default;  // none
  KafkaClient(KafkaClient&&) = default;
  KafkaClient& operator=(KafkaClient&&) = default;

  rd_kafka_t* get() const { return client_.get(); }
  explicit operator bool() const { return client_ != nullptr; }
  // Why the last connection has failed; empty: none has. Most calls say only that no broker could be reached.
  std::string LastError() const;
  // `what` says what was tried. kUnavailable, with LastError(): a later attempt may succeed.
  Status Error(rd_kafka_resp_err_t error, const std::string& what) const;

 private:
  struct Log;
  struct End {
    std::shared_ptr<Log> log;  // outlives the client
    void operator()(rd_kafka_t* client) const;
  };
  static void Write(const rd_kafka_t* client, int level, const char* facility, const char* text);

  std::shared_ptr<Log> log_;
  std::unique_ptr<rd_kafka_t, End> client_;
};

int Milliseconds(Duration duration);

// How long a question is asked again.
struct Patience {
  Duration unavailable{0};  // kUnavailable: brokers that are starting, partitions whose leader changes
  Duration not_found{0};    // kNotFound: a topic that was only just made
};
// The last answer. The pauses grow; `ask` gets the time that is left.
Status AskAgain(const Patience& patience, const std::function<Status(Duration left)>& ask);

}  // namespace leat::stream
