// Connections to a Kafka cluster: settings, which are librdkafka's, and what its errors are to Leat.
#pragma once

#include <librdkafka/rdkafka.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"
#include "stream/source.h"

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
  std::string Where(uint32_t partition) const { return StrCat(Where(), " partition ", partition); }
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

using KafkaList = KafkaPtr<rd_kafka_topic_partition_list_t>;
// Partitions of a topic, all with the same offset.
KafkaList MakeKafkaList(const std::string& topic, std::span<const uint32_t> partitions, int64_t offset);

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

// Limits of the records that a reader fetches ahead. librdkafka has a queue for each partition, with limits
// for each of them alone; these functions keep all of them within one budget.

// Memory of a message in a queue besides its bytes, about.
inline constexpr uint64_t kKafkaMessageBytes = 400;
// A partition that was not read for so long has no queue.
inline constexpr Duration kPrefetchIdle = std::chrono::seconds(60);

// Adds librdkafka's settings with which so many partitions have about `budget` bytes in all. Existing
// settings stay.
void DividePrefetch(uint64_t budget, size_t partitions, std::map<std::string, std::string>* settings);

struct PrefetchedPartition {
  uint32_t partition = 0;
  uint64_t bytes = 0;  // in memory, about
  Time used{0};        // last read
};
// The partitions to let go: those that were not read for kPrefetchIdle, then those that were read longest ago
// until the others are within the budget. Never the last one read. Compressed records take the memory that
// the settings cannot foresee.
std::vector<uint32_t> FindUnneeded(std::vector<PrefetchedPartition> all, uint64_t budget, Time now);

// Messages as the records of a batch.

enum class KafkaPayload : uint8_t { kCopied, kSkipped };  // the use of their bytes
// Appends a message as the record with this index, and the attributes that are wanted.
void AddMessage(const rd_kafka_message_t& message, uint64_t index, KafkaPayload payload, RecordBatch* out);
// Appends offsets that no record has had, up to this index.
void AddAbsent(uint64_t index, RecordBatch* out);
// See Source::Fingerprint.
uint64_t KafkaFingerprint(const RecordBatch& batch, size_t record);

// Topics and consumer groups of a Kafka cluster.

// The cluster's id, or kUnavailable if no broker tells it within the timeout.
Result<std::string> KafkaClusterId(const KafkaOptions& options);

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
