#include "stream/kafka/kafka_admin.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace leat::stream {
namespace {

// A request, and where its answer comes. `options`: of the client; their topic is named in errors.
class Request {
 public:
  Request(const KafkaClient& client, const KafkaOptions& options) : client_(client), options_(options) {}

  Status Prepare() {
    queue_.reset(rd_kafka_queue_new(client()));
    limits_.reset(rd_kafka_AdminOptions_new(client(), RD_KAFKA_ADMIN_OP_ANY));
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
  rd_kafka_AdminOptions_t* limits() { return limits_.get(); }

  Status Error(rd_kafka_resp_err_t error) const { return client_.Error(error, options_.Where()); }

  // The brokers' answer.
  Result<KafkaPtr<rd_kafka_event_t>> Await() {
    KafkaPtr<rd_kafka_event_t> event(
        rd_kafka_queue_poll(queue_.get(), Milliseconds(options_.timeout + std::chrono::seconds(5))));
    if (event == nullptr) return NoAnswer();
    LEAT_RETURN_IF_ERROR(Error(rd_kafka_event_error(event.get())));
    return event;
  }
  Status NoAnswer() const { return {Code::kUnavailable, options_.Where() + ": no broker has answered"}; }

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
            options_.Where() + ": " + (why != nullptr ? why : rd_kafka_err2str(error))};
  }

 private:
  const KafkaClient& client_;
  const KafkaOptions& options_;
  KafkaPtr<rd_kafka_queue_t> queue_;
  KafkaPtr<rd_kafka_AdminOptions_t> limits_;
};

}  // namespace

Status CreateKafkaTopic(const KafkaOptions& options, uint32_t partitions) {
  LEAT_ASSIGN_OR_RETURN(const auto client, KafkaClient::Make(RD_KAFKA_PRODUCER, options, {}));
  return CreateKafkaTopic(client, options, partitions);
}

Status CreateKafkaTopic(const KafkaClient& client, const KafkaOptions& options, uint32_t partitions) {
  Request request(client, options);
  LEAT_RETURN_IF_ERROR(request.Prepare());
  char why[512] = "";
  const KafkaPtr<rd_kafka_NewTopic_t> topic(
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

namespace {

Result<KafkaTopicSettings> DescribeTopicOnce(const KafkaClient& client, const KafkaOptions& options) {
  Request request(client, options);
  LEAT_RETURN_IF_ERROR(request.Prepare());
  const KafkaPtr<rd_kafka_ConfigResource_t> topic(
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

}  // namespace

Result<KafkaTopicSettings> DescribeKafkaTopic(const KafkaOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const auto client, KafkaClient::Make(RD_KAFKA_PRODUCER, options, {}));
  KafkaTopicSettings settings;
  LEAT_RETURN_IF_ERROR(
      AskAgain({.unavailable = options.timeout, .not_found = kNewTopic}, [&](Duration) -> Status {
        LEAT_ASSIGN_OR_RETURN(settings, DescribeTopicOnce(client, options));
        return {};
      }));
  return settings;
}

Result<std::map<uint32_t, uint64_t>> FindCommitted(const KafkaClient& client, const KafkaOptions& options,
                                                   const std::string& group, const std::string& topic,
                                                   const std::vector<uint32_t>& partitions) {
  Request request(client, options);
  LEAT_RETURN_IF_ERROR(request.Prepare());
  const std::string where = "the offsets of consumer group '" + group + "' for '" + topic + "'";
  const KafkaPtr<rd_kafka_error_t> refused(
      rd_kafka_AdminOptions_set_require_stable_offsets(request.limits(), 1));
  if (refused != nullptr)
    return Status(Code::kInvalidArgument, where + ": " + rd_kafka_error_string(refused.get()));
  const KafkaPtr<rd_kafka_topic_partition_list_t> list(
      rd_kafka_topic_partition_list_new(static_cast<int>(partitions.size())));
  for (const uint32_t partition : partitions)
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), static_cast<int32_t>(partition));
  const KafkaPtr<rd_kafka_ListConsumerGroupOffsets_t> offsets(
      rd_kafka_ListConsumerGroupOffsets_new(group.c_str(), list.get()));
  rd_kafka_ListConsumerGroupOffsets_t* one = offsets.get();
  rd_kafka_ListConsumerGroupOffsets(request.client(), &one, 1, request.limits(), request.queue());
  LEAT_ASSIGN_OR_RETURN(const auto event, request.Await());
  size_t count = 0;
  const rd_kafka_group_result_t** found = rd_kafka_ListConsumerGroupOffsets_result_groups(
      rd_kafka_event_ListConsumerGroupOffsets_result(event.get()), &count);
  if (found == nullptr || count != 1) return request.NoAnswer();
  if (const rd_kafka_error_t* error = rd_kafka_group_result_error(found[0]); error != nullptr)
    return client.Error(rd_kafka_error_code(error), where);
  const rd_kafka_topic_partition_list_t* answer = rd_kafka_group_result_partitions(found[0]);
  if (answer == nullptr || answer->cnt != list->cnt) return request.NoAnswer();
  std::map<uint32_t, uint64_t> committed;
  for (int i = 0; i < answer->cnt; ++i) {
    const rd_kafka_topic_partition_t& its = answer->elems[i];
    LEAT_RETURN_IF_ERROR(client.Error(its.err, where));
    if (its.offset >= 0) committed[static_cast<uint32_t>(its.partition)] = static_cast<uint64_t>(its.offset);
  }
  return committed;
}

}  // namespace leat::stream
