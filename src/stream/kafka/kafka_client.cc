#include "stream/kafka/kafka_client.h"

#include <syslog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/threads/thread.h"

namespace leat::stream {
namespace {

// Leat keeps the job's offsets, reads committed records only, and waits for the ends of partitions.
constexpr std::array<std::string_view, 6> kOwned = {"isolation.level",    "group.id",
                                                    "enable.auto.commit", "enable.auto.offset.store",
                                                    "auto.offset.reset",  "enable.partition.eof"};

constexpr std::array<std::string_view, 8> kSecrets = {"sasl.password",
                                                      "ssl.key.password",
                                                      "ssl.key.pem",
                                                      "ssl.keystore.password",
                                                      "sasl.oauthbearer.client.secret",
                                                      "sasl.oauthbearer.config",
                                                      "ssl_key",
                                                      "ssl_keystore"};

constexpr std::chrono::seconds kEnd(10);  // time for a client to end

Status Set(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
  char why[512] = "";
  switch (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), why, sizeof(why))) {
    case RD_KAFKA_CONF_OK:
      return {};
    case RD_KAFKA_CONF_UNKNOWN:
      return {Code::kInvalidArgument, "librdkafka has no setting '" + name + "'"};
    case RD_KAFKA_CONF_INVALID:
      break;
  }
  // Its message repeats the value.
  if (IsKafkaSecret(name)) return {Code::kInvalidArgument, "the value of '" + name + "' is invalid"};
  return {Code::kInvalidArgument, why};
}

constexpr uint64_t kLeastFetched = 64 << 10, kMostFetched = 1 << 20;  // bytes of a partition in one reply
constexpr uint64_t kShortRecord = 100;
// By default librdkafka of some versions looks at a full queue again only after a second.
constexpr const char* kQueueBackoff = "fetch.queue.backoff.ms";

std::optional<ByteView> ValueOf(const rd_kafka_message_t& message, const Attribute& attribute,
                                int64_t* timestamp) {
  const void* bytes = nullptr;
  size_t size = 0;
  switch (attribute.kind) {
    case Attribute::Kind::kKey:
      bytes = message.key;
      size = message.key_len;
      break;
    case Attribute::Kind::kTimestamp: {
      rd_kafka_timestamp_type_t type;
      *timestamp = rd_kafka_message_timestamp(&message, &type);
      if (type == RD_KAFKA_TIMESTAMP_NOT_AVAILABLE) return std::nullopt;
      bytes = timestamp;
      size = sizeof(*timestamp);
      break;
    }
    case Attribute::Kind::kHeader: {
      rd_kafka_headers_t* headers = nullptr;
      if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
          rd_kafka_header_get_last(headers, attribute.header.c_str(), &bytes, &size) !=
              RD_KAFKA_RESP_ERR_NO_ERROR)
        return std::nullopt;
      break;
    }
    case Attribute::Kind::kLabel:  // belongs to another topic
      break;
  }
  if (bytes == nullptr) return std::nullopt;
  return ByteView(static_cast<const std::byte*>(bytes), size);
}

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

bool IsKafkaSecret(std::string_view name) {
  return std::ranges::find(kSecrets, name) != kSecrets.end();
}

Status CheckKafkaSetting(const std::string& name) {
  if (std::ranges::find(kOwned, name) != kOwned.end())
    return {Code::kInvalidArgument,
            "'" + name + "' is set by Leat, which keeps the offsets of the job itself"};
  const KafkaPtr<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  char why[512] = "";
  // It may refuse this value.
  if (rd_kafka_conf_set(conf.get(), name.c_str(), "", why, sizeof(why)) != RD_KAFKA_CONF_UNKNOWN) return {};
  return {Code::kInvalidArgument, "librdkafka has no setting '" + name + "'"};
}

Status CheckKafkaSetting(const std::string& name, const std::string& value) {
  LEAT_RETURN_IF_ERROR(CheckKafkaSetting(name));
  const KafkaPtr<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  return Set(conf.get(), name, value);
}

struct KafkaClient::Log {
  std::mutex mutex;
  std::string last;
  std::atomic<bool> answered{false};
};

void KafkaClient::End::operator()(rd_kafka_t* client) const {
  const auto ended = std::make_shared<std::promise<void>>();
  try {
    StartThread([client, ended, log = log] {
      rd_kafka_destroy(client);
      ended->set_value();
    }).detach();
  } catch (const std::exception&) {  // without a thread the wait has no limit
    rd_kafka_destroy(client);
    return;
  }
  if (ended->get_future().wait_for(kEnd) != std::future_status::ready)
    spdlog::warn("Kafka: a client does not end within {} s, and is left behind", kEnd.count());
}

// Called on threads of librdkafka.
void KafkaClient::Write(const rd_kafka_t* client, int level, const char* facility, const char* text) {
  std::string_view line = text;
  // The name of the thread.
  if (line.starts_with("[thrd:")) line.remove_prefix(std::min(line.size(), line.find("]: ") + 3));
  spdlog::debug("kafka: {}", line);
  // Reports of failed connections. Other errors only say that all brokers are down.
  if (level > LOG_WARNING || std::string_view(facility) != "FAIL") return;
  auto* log = static_cast<Log*>(rd_kafka_opaque(client));
  std::lock_guard lock(log->mutex);
  log->last = line;
}

Result<KafkaClient> KafkaClient::Make(rd_kafka_type_t type, const KafkaOptions& options,
                                      const std::map<std::string, std::string>& own) {
  KafkaPtr<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  for (const auto* settings : {&options.settings, &own}) {
    for (const auto& [name, value] : *settings) LEAT_RETURN_IF_ERROR(Set(conf.get(), name, value));
  }
  KafkaClient made;
  made.log_ = std::make_shared<Log>();
  rd_kafka_conf_set_opaque(conf.get(), made.log_.get());
  rd_kafka_conf_set_log_cb(conf.get(), Write);
  // The commit of a transaction waits for the reports itself.
  if (type == RD_KAFKA_PRODUCER && !own.contains("transactional.id"))
    rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR);
  char why[512] = "";
  rd_kafka_t* const client = rd_kafka_new(type, conf.get(), why, sizeof(why));
  if (client == nullptr) return Status(Code::kInvalidArgument, std::string("Kafka: ") + why);
  made.client_ = {client, End{made.log_}};
  (void)conf.release();  // the client's
  return made;
}

std::string KafkaClient::LastError() const {
  std::lock_guard lock(log_->mutex);
  return log_->last;
}

Status KafkaClient::Error(rd_kafka_resp_err_t error, const std::string& what) const {
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    log_->answered = true;
    return {};
  }
  static constexpr std::pair<rd_kafka_resp_err_t, Code> kCodes[] = {
      {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, Code::kNotFound},
      {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, Code::kNotFound},
      {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, Code::kNotFound},
      {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, Code::kNotFound},
      {RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET, Code::kNotFound},
      {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Code::kPermissionDenied},
      {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, Code::kPermissionDenied},
      {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, Code::kPermissionDenied},
      {RD_KAFKA_RESP_ERR__AUTHENTICATION, Code::kPermissionDenied},
      {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, Code::kPermissionDenied},
      {RD_KAFKA_RESP_ERR__BAD_MSG, Code::kDataLoss},
      {RD_KAFKA_RESP_ERR_INVALID_MSG, Code::kDataLoss}};
  const std::string message = what + ": " + rd_kafka_err2str(error);
  for (const auto& [known, code] : kCodes) {
    if (known == error) return {code, message};
  }
  const std::string last = LastError();
  // librdkafka tries wrong credentials again and again, and has no code of its own for them. Credentials that
  // brokers have accepted before are right: the service that checks them is away.
  const bool refused = !log_->answered && last.find("uthentication failed") != last.npos;
  return {refused ? Code::kPermissionDenied : Code::kUnavailable,
          message + (last.empty() ? "" : " (" + last + ")")};
}

int Milliseconds(Duration duration) {
  return static_cast<int>(
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()));
}

KafkaList MakeKafkaList(const std::string& topic, std::span<const uint32_t> partitions, int64_t offset) {
  KafkaList list(rd_kafka_topic_partition_list_new(static_cast<int>(partitions.size())));
  for (const uint32_t id : partitions)
    rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), static_cast<int32_t>(id))->offset = offset;
  return list;
}

Status AskAgain(const Patience& patience, const std::function<Status(Duration left)>& ask) {
  constexpr Duration kFirstPause = std::chrono::milliseconds(100), kLongestPause = std::chrono::seconds(2);
  const MonotonicClock clock;
  const Time begin = clock.Now();
  const Time until = begin + std::max(patience.unavailable, patience.not_found);
  for (Duration pause = kFirstPause;; pause = std::min<Duration>(2 * pause, kLongestPause)) {
    Status status = ask(until - clock.Now());
    if (status.code() != Code::kNotFound && status.code() != Code::kUnavailable) return status;
    const Duration patient = status.code() == Code::kNotFound ? patience.not_found : patience.unavailable;
    if (clock.Now() + pause >= begin + patient) return status;
    std::this_thread::sleep_for(pause);
  }
}

void DividePrefetch(uint64_t budget, size_t partitions, std::map<std::string, std::string>* settings) {
  const uint64_t share = budget / std::max<size_t>(1, partitions);
  const uint64_t reply = std::clamp(share / 10, kLeastFetched, kMostFetched);
  // A reply may come to a queue that is almost full, and short records take several times their bytes.
  const uint64_t with_reply = reply + reply / kShortRecord * kKafkaMessageBytes;
  const uint64_t queue = share - std::min(with_reply, share / 8 * 7);
  const auto set = [settings](const char* name, uint64_t value) {
    settings->emplace(name, std::to_string(std::max<uint64_t>(1, value)));
  };
  set("queued.max.messages.kbytes", queue / 2 / 1024);
  set("queued.min.messages", queue / 2 / kKafkaMessageBytes);
  // It has two names.
  if (!settings->contains("max.partition.fetch.bytes")) set("fetch.message.max.bytes", reply);
  if (CheckKafkaSetting(kQueueBackoff).ok()) set(kQueueBackoff, 5);
}

std::vector<uint32_t> FindUnneeded(std::vector<PrefetchedPartition> all, uint64_t budget, Time now) {
  std::ranges::sort(all, std::greater(), &PrefetchedPartition::used);
  uint64_t bytes = 0;
  std::vector<uint32_t> unneeded;
  for (size_t i = 0; i < all.size(); ++i) {
    bytes += all[i].bytes;
    if (i > 0 && (bytes > budget || now - all[i].used > kPrefetchIdle)) unneeded.push_back(all[i].partition);
  }
  return unneeded;
}

void AddAbsent(uint64_t index, RecordBatch* out) {
  if (out->size() == index) return;
  out->absent.push_back({out->size(), index});
  out->offsets.resize(index + 1, out->offsets.back());
}

void AddMessage(const rd_kafka_message_t& message, uint64_t index, KafkaPayload payload, RecordBatch* out) {
  AddAbsent(index, out);
  const auto* bytes = static_cast<const std::byte*>(message.payload);
  if (payload == KafkaPayload::kCopied) out->data.insert(out->data.end(), bytes, bytes + message.len);
  out->offsets.push_back(out->data.size());
  out->attributes.resize(out->wanted.size());
  int64_t timestamp = 0;
  for (size_t i = 0; i < out->wanted.size(); ++i) {
    out->attributes[i].FillTo(index);
    out->attributes[i].Append(ValueOf(message, out->wanted[i], &timestamp));
  }
}

uint64_t KafkaFingerprint(const RecordBatch& batch, size_t record) {
  ByteWriter bytes;
  bytes.Put(batch.first_offset + record);
  for (size_t i = 0; i < batch.wanted.size(); ++i) {
    const auto value = batch.Value(i, record);
    bytes.Put(value.has_value());
    if (value) bytes.PutString(AsText(*value));
  }
  bytes.PutString(AsText(batch[record]));
  return std::max<uint64_t>(1, Checksum(bytes.view()));
}

Result<std::string> KafkaClusterId(const KafkaOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const auto client, KafkaClient::Make(RD_KAFKA_CONSUMER, options, {}));
  const std::unique_ptr<char, decltype(&free)> id(
      rd_kafka_clusterid(client.get(), Milliseconds(options.timeout)), free);
  if (id == nullptr) return Status(Code::kUnavailable, options.Where() + ": no broker answers");
  return std::string(id.get());
}

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
  const KafkaList list = MakeKafkaList(topic, partitions, RD_KAFKA_OFFSET_INVALID);
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
    const rd_kafka_topic_partition_t& found_for = answer->elems[i];
    LEAT_RETURN_IF_ERROR(client.Error(found_for.err, where));
    if (found_for.offset >= 0)
      committed[static_cast<uint32_t>(found_for.partition)] = static_cast<uint64_t>(found_for.offset);
  }
  return committed;
}

}  // namespace leat::stream
