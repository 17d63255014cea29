#include "stream/kafka/kafka_admin.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace leat::stream {
namespace {

struct AdminDeleter {
  void operator()(rd_kafka_NewTopic_t* topic) const { rd_kafka_NewTopic_destroy(topic); }
  void operator()(rd_kafka_AdminOptions_t* options) const { rd_kafka_AdminOptions_destroy(options); }
  void operator()(rd_kafka_ConfigResource_t* resource) const { rd_kafka_ConfigResource_destroy(resource); }
  void operator()(rd_kafka_event_t* event) const { rd_kafka_event_destroy(event); }
};

// A request about one topic, and where its answer comes.
class Request {
 public:
  explicit Request(const KafkaOptions& options) : options_(options) {}

  Status Connect() {
    LEAT_ASSIGN_OR_RETURN(client_, KafkaClient::Make(RD_KAFKA_PRODUCER, options_, {}));
    queue_.reset(rd_kafka_queue_new(client_.get()));
    limits_.reset(rd_kafka_AdminOptions_new(client_.get(), RD_KAFKA_ADMIN_OP_ANY));
    char why[512] = "";
    const int timeout = Milliseconds(options_.timeout);
    const auto set = rd_kafka_AdminOptions_set_request_timeout(limits_.get(), timeout, why, sizeof(why));
    if (set != RD_KAFKA_RESP_ERR_NO_ERROR) return {Code::kInvalidArgument, why};
    // Until the topic can be written to.
    (void)rd_kafka_AdminOptions_set_operation_timeout(limits_.get(), timeout, why, sizeof(why));
    return {};
  }
  rd_kafka_t* client() { return client_.get(); }
  rd_kafka_queue_t* queue() { return queue_.get(); }
  const rd_kafka_AdminOptions_t* limits() { return limits_.get(); }

  Status Error(rd_kafka_resp_err_t error) const { return client_.Error(error, Where()); }
  std::string Where() const { return "Kafka topic '" + options_.topic + "'"; }

  // The brokers' answer.
  Result<std::unique_ptr<rd_kafka_event_t, AdminDeleter>> Await() {
    std::unique_ptr<rd_kafka_event_t, AdminDeleter> event(
        rd_kafka_queue_poll(queue_.get(), Milliseconds(options_.timeout + std::chrono::seconds(5))));
    if (event == nullptr) return NoAnswer();
    LEAT_RETURN_IF_ERROR(Error(rd_kafka_event_error(event.get())));
    return event;
  }
  Status NoAnswer() const { return {Code::kUnavailable, Where() + ": no broker has answered"}; }

  // The outcome of a change of the topic. `results` finds it in the answer.
  template <class Results>
  Status AwaitChange(Results results, rd_kafka_resp_err_t fine) {
    LEAT_ASSIGN_OR_RETURN(const auto event, Await());
    size_t count = 0;
    const rd_kafka_topic_result_t** found = results(event.get(), &count);
    if (found == nullptr || count != 1) return NoAnswer();
    const auto error = rd_kafka_topic_result_error(found[0]);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR || error == fine) return {};
    const char* why = rd_kafka_topic_result_error_string(found[0]);
    const bool ours =
        error == RD_KAFKA_RESP_ERR_INVALID_PARTITIONS || error == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
    return {ours ? Code::kInvalidArgument : client_.Error(error, "").code(),
            Where() + ": " + (why != nullptr ? why : rd_kafka_err2str(error))};
  }

 private:
  const KafkaOptions& options_;
  KafkaClient client_;
  KafkaPtr<rd_kafka_queue_t> queue_;
  std::unique_ptr<rd_kafka_AdminOptions_t, AdminDeleter> limits_;
};

}  // namespace

Status CreateKafkaTopic(const KafkaOptions& options, uint32_t partitions) {
  Request request(options);
  LEAT_RETURN_IF_ERROR(request.Connect());
  char why[512] = "";
  const std::unique_ptr<rd_kafka_NewTopic_t, AdminDeleter> topic(
      rd_kafka_NewTopic_new(options.topic.c_str(), static_cast<int>(partitions), -1, why, sizeof(why)));
  if (topic == nullptr) return {Code::kInvalidArgument, why};
  rd_kafka_NewTopic_t* one = topic.get();
  rd_kafka_CreateTopics(request.client(), &one, 1, request.limits(), request.queue());
  return request.AwaitChange(
      [](rd_kafka_event_t* event, size_t* count) {
        return rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), count);
      },
      RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS);
}

Result<KafkaTopicSettings> DescribeKafkaTopic(const KafkaOptions& options) {
  Request request(options);
  LEAT_RETURN_IF_ERROR(request.Connect());
  const std::unique_ptr<rd_kafka_ConfigResource_t, AdminDeleter> topic(
      rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, options.topic.c_str()));
  rd_kafka_ConfigResource_t* one = topic.get();
  rd_kafka_DescribeConfigs(request.client(), &one, 1, request.limits(), request.queue());
  LEAT_ASSIGN_OR_RETURN(const auto event, request.Await());
  size_t count = 0;
  const rd_kafka_ConfigResource_t** found =
      rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(event.get()), &count);
  if (found == nullptr || count != 1) return request.NoAnswer();
  LEAT_RETURN_IF_ERROR(request.Error(rd_kafka_ConfigResource_error(found[0])));
  KafkaTopicSettings settings;
  const rd_kafka_ConfigEntry_t** entries = rd_kafka_ConfigResource_configs(found[0], &count);
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name = rd_kafka_ConfigEntry_name(entries[i]);
    const char* value = rd_kafka_ConfigEntry_value(entries[i]);
    if (value == nullptr) continue;
    if (name == "cleanup.policy")
      settings.compacted = std::string_view(value).find("compact") != std::string_view::npos;
    if (name == "retention.ms") settings.retention_ms = std::strtoll(value, nullptr, 10);
  }
  return settings;
}

}  // namespace leat::stream
