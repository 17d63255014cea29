#include "stream/kafka/kafka_client.h"

#include <syslog.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

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
      break;
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

}  // namespace leat::stream
