#include "stream/kafka/kafka_producer.h"

#include <cmath>
#include <memory>

namespace leat::stream {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(10);  // between two attempts

// A report names the record and the last Restart before it.
constexpr int kNumberBits = 32;

}  // namespace

Result<KafkaProducer> KafkaProducer::Make(const KafkaOptions& options, const Settings& defaults,
                                          const Settings& own) {
  KafkaOptions complete = options;
  complete.settings.insert(defaults.begin(), defaults.end());
  Settings all = own;
  all["enable.idempotence"] = "true";
  LEAT_ASSIGN_OR_RETURN(auto client, KafkaClient::Make(RD_KAFKA_PRODUCER, complete, all));
  KafkaPtr<rd_kafka_topic_t> topic(rd_kafka_topic_new(client.get(), options.topic.c_str(), nullptr));
  if (topic == nullptr) return client.Error(rd_kafka_last_error(), options.Where());
  KafkaPtr<rd_kafka_queue_t> reports(rd_kafka_queue_get_main(client.get()));
  return KafkaProducer(std::move(client), std::move(topic), std::move(reports));
}

KafkaProducer::KafkaProducer(KafkaClient client, KafkaPtr<rd_kafka_topic_t> topic,
                             KafkaPtr<rd_kafka_queue_t> reports)
    : client_(std::move(client)), topic_(std::move(topic)), reports_(std::move(reports)) {}

KafkaProducer::~KafkaProducer() {
  if (client_) rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
}

rd_kafka_resp_err_t KafkaProducer::Produce(const Record& record, Time until) {
  const MonotonicClock clock;
  rd_kafka_resp_err_t error = TryProduce(record);
  while (error == RD_KAFKA_RESP_ERR__QUEUE_FULL && clock.Now() < until) {
    TakeReports(kPause);
    error = TryProduce(record);
  }
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    ++waiting_;
    waiting_bytes_ += record.value.size();
  }
  return error;
}

rd_kafka_resp_err_t KafkaProducer::TryProduce(const Record& record) const {
  rd_kafka_headers_t* headers = nullptr;
  if (!record.headers.empty()) {
    headers = rd_kafka_headers_new(record.headers.size());
    for (const auto& [name, text] : record.headers)
      rd_kafka_header_add(headers, name, -1, text.data(), static_cast<ssize_t>(text.size()));
  }
  const auto id = reinterpret_cast<void*>(uintptr_t{starts_} << kNumberBits | record.number);  // NOLINT
  const auto error = rd_kafka_producev(
      client_.get(), RD_KAFKA_V_RKT(topic_.get()), RD_KAFKA_V_PARTITION(record.partition),
      RD_KAFKA_V_VALUE(const_cast<char*>(record.value.data()), record.value.size()),  // NOLINT: copied
      RD_KAFKA_V_KEY(record.key.data(), record.key.size()), RD_KAFKA_V_HEADERS(headers),
      RD_KAFKA_V_OPAQUE(id), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR && headers != nullptr)
    rd_kafka_headers_destroy(headers);  // else they are the message's
  return error;
}

bool KafkaProducer::TakeReports(Duration timeout) {
  const KafkaPtr<rd_kafka_event_t> event(rd_kafka_queue_poll(reports_.get(), Milliseconds(timeout)));
  if (event == nullptr || rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR) return false;
  while (const rd_kafka_message_t* message = rd_kafka_event_message_next(event.get())) {
    const auto id = reinterpret_cast<uintptr_t>(message->_private);
    if (id >> kNumberBits != starts_) continue;
    --waiting_;
    waiting_bytes_ -= message->len;
    on_report_({.number = static_cast<uint32_t>(id), .error = message->err, .offset = message->offset});
  }
  return true;
}

Status KafkaProducer::AwaitAll(Time until, const std::string& where) {
  const MonotonicClock clock;
  const Time began = clock.Now();
  while (waiting_ > 0) {
    const Time now = clock.Now();
    if (now >= until) return NoAnswer(now - began, where);
    TakeReports(until - now);
  }
  return {};
}

void KafkaProducer::Restart() {
  ++starts_;
  waiting_ = waiting_bytes_ = 0;
}

Status KafkaProducer::NoAnswer(Duration waited, const std::string& where) const {
  const std::string last = client_.LastError();
  return {Code::kUnavailable,
          where + ": " + std::to_string(waiting_) + " records are not acknowledged after " +
              std::to_string(std::lround(Seconds(waited))) + " s" + (last.empty() ? "" : " (" + last + ")")};
}

}  // namespace leat::stream
