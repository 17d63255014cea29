#include "stream/kafka/kafka_client.h"

#include <spdlog/spdlog.h>
#include <syslog.h>

#include <algorithm>
#include <array>
#include <utility>

namespace leat::stream {
namespace {

// What a job relies on. Offsets are the job's own, and only committed records exist.
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

void Log(const rd_kafka_t*, int level, const char*, const char* text) {
  const auto at = level <= LOG_ERR       ? spdlog::level::err
                  : level <= LOG_WARNING ? spdlog::level::warn
                  : level <= LOG_INFO    ? spdlog::level::info
                                         : spdlog::level::debug;
  spdlog::log(at, "kafka: {}", text);
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

Result<KafkaPtr<rd_kafka_t>> MakeKafkaClient(rd_kafka_type_t type, const KafkaOptions& options,
                                             const std::map<std::string, std::string>& own) {
  KafkaPtr<rd_kafka_conf_t> conf(rd_kafka_conf_new());
  for (const auto* settings : {&options.settings, &own}) {
    for (const auto& [name, value] : *settings) LEAT_RETURN_IF_ERROR(Set(conf.get(), name, value));
  }
  rd_kafka_conf_set_log_cb(conf.get(), Log);
  if (type == RD_KAFKA_PRODUCER) rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR);
  char why[512] = "";
  rd_kafka_t* client = rd_kafka_new(type, conf.get(), why, sizeof(why));
  if (client == nullptr) return Status(Code::kInvalidArgument, std::string("Kafka: ") + why);
  (void)conf.release();  // the client's
  return KafkaPtr<rd_kafka_t>(client);
}

Status KafkaError(rd_kafka_resp_err_t error, const std::string& what) {
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
  const std::string message = what + ": " + rd_kafka_err2str(error);
  switch (error) {
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
      return {Code::kNotFound, message};
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
      return {Code::kPermissionDenied, message};
    case RD_KAFKA_RESP_ERR__BAD_MSG:
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
      return {Code::kDataLoss, message};
    default:
      return {Code::kUnavailable, message};
  }
}

int Milliseconds(Duration duration) {
  return static_cast<int>(
      std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(duration).count()));
}

}  // namespace leat::stream
