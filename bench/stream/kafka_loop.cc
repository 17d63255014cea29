#include "kafka_loop.h"

#include <librdkafka/rdkafka.h>

#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <vector>

#include "payments.h"

namespace leat::bench {
namespace {

using Clock = std::chrono::steady_clock;

// As many as librdkafka has ready, up to this number.
constexpr size_t kMessages = 2000;
constexpr int kWaitMs = 100;

[[noreturn]] void FailLoop(const std::string& why) {
  throw std::runtime_error("the loop around librdkafka: " + why);
}

std::unique_ptr<rd_kafka_t, decltype(&rd_kafka_destroy)> Connect(
    const std::map<std::string, std::string>& settings) {
  char why[512] = "";
  rd_kafka_conf_t* const conf = rd_kafka_conf_new();
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), why, sizeof why) != RD_KAFKA_CONF_OK)
      FailLoop(why);
  }
  rd_kafka_t* const client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
  if (client == nullptr) FailLoop(why);
  return {client, rd_kafka_destroy};
}

// Parses messages where they can be read beyond their end.
class Parsing {
 public:
  void Read(const rd_kafka_message_t& message) {
    text_.assign(static_cast<const char*>(message.payload), message.len);
    text_.reserve(message.len + stream::RecordBatch::kPadding);
    sum_ = sum_ + payments_.ReadAll(text_);
  }

 private:
  SimdjsonPayments payments_;
  std::string text_;
  volatile double sum_ = 0;  // volatile: the compiler must not leave out the reading
};

}  // namespace

uint64_t ConsumePayments(const std::map<std::string, std::string>& settings, const std::string& topic,
                         uint32_t partitions, uint64_t events, bool parse, double seconds) {
  const auto client = Connect(settings);
  const std::unique_ptr<rd_kafka_topic_t, decltype(&rd_kafka_topic_destroy)> source(
      rd_kafka_topic_new(client.get(), topic.c_str(), nullptr), rd_kafka_topic_destroy);
  const std::unique_ptr<rd_kafka_queue_t, decltype(&rd_kafka_queue_destroy)> queue(
      rd_kafka_queue_new(client.get()), rd_kafka_queue_destroy);
  for (uint32_t p = 0; p < partitions; ++p) {
    if (rd_kafka_consume_start_queue(source.get(), static_cast<int32_t>(p), RD_KAFKA_OFFSET_BEGINNING,
                                     queue.get()) != 0)
      FailLoop(rd_kafka_err2str(rd_kafka_last_error()));
  }
  Parsing parsing;
  uint64_t read = 0;
  std::array<rd_kafka_message_t*, kMessages> messages;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  while (read < events && Clock::now() < end) {
    const ssize_t count =
        rd_kafka_consume_batch_queue(queue.get(), kWaitMs, messages.data(), messages.size());
    for (ssize_t i = 0; i < count; ++i) {
      rd_kafka_message_t* const message = messages[static_cast<size_t>(i)];
      if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) FailLoop(rd_kafka_message_errstr(message));
      if (parse) parsing.Read(*message);
      rd_kafka_message_destroy(message);
    }
    read += static_cast<uint64_t>(count > 0 ? count : 0);
  }
  for (uint32_t p = 0; p < partitions; ++p) rd_kafka_consume_stop(source.get(), static_cast<int32_t>(p));
  return read;
}

}  // namespace leat::bench
