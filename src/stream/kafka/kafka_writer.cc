#include "stream/kafka/kafka_writer.h"

#include <string>
#include <utility>
#include <vector>

#include "stream/kafka/kafka_source.h"

namespace leat::stream {
namespace {

// Records that Send hands over wait in memory until they are acknowledged, up to this size.
constexpr size_t kMostBytes = size_t{64} << 20;

class KafkaWriter final : public TopicWriter {
 public:
  KafkaWriter(const KafkaOptions& options, uint32_t partitions, KafkaClient client,
              KafkaPtr<rd_kafka_topic_t> topic, KafkaPtr<rd_kafka_queue_t> reports)
      : options_(options),
        partitions_(partitions),
        client_(std::move(client)),
        topic_(std::move(topic)),
        reports_(std::move(reports)) {}
  ~KafkaWriter() override {
    // What has not been acknowledged by now belongs to an append that has failed.
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  }

  Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) override {
    LEAT_RETURN_IF_ERROR(CheckPartition(partition, records.empty()));
    const Time until = clock_.Now() + options_.timeout;
    // An append that has failed may still be on its way. The records of the next call are the same.
    for (; sent_ < records.size(); ++sent_)
      LEAT_RETURN_IF_ERROR(Produce(partition, {.value = records[sent_]}, until));
    while (waiting_ > 0) {
      const Duration left = until - clock_.Now();
      if (left <= Duration::zero()) return NoAnswer(Where(partition));
      TakeReports(left);
    }
    sent_ = 0;
    const int64_t first = std::exchange(first_, -1);
    LEAT_RETURN_IF_ERROR(client_.Error(std::exchange(error_, RD_KAFKA_RESP_ERR_NO_ERROR), Where(partition)));
    return static_cast<uint64_t>(first);
  }

  Status Send(uint32_t partition, std::span<const TopicRecord> records) override {
    LEAT_RETURN_IF_ERROR(CheckPartition(partition, records.empty()));
    for (const TopicRecord& record : records) {
      while (waiting_bytes_ > kMostBytes) LEAT_RETURN_IF_ERROR(AwaitReports());
      LEAT_RETURN_IF_ERROR(Produce(partition, record, clock_.Now() + options_.timeout));
    }
    TakeReports(Duration::zero());
    return client_.Error(error_, Where());
  }

  Status Flush() override {
    while (waiting_ > 0) LEAT_RETURN_IF_ERROR(AwaitReports());
    return client_.Error(error_, Where());
  }

  uint64_t waiting() const override { return waiting_ + failed_; }
  Status Seal() override { return {}; }
  uint32_t partitions() const override { return partitions_; }

 private:
  std::string Where() const { return "Kafka topic '" + options_.topic + "'"; }
  std::string Where(uint32_t partition) const { return Where() + " partition " + std::to_string(partition); }

  Status CheckPartition(uint32_t partition, bool empty) const {
    if (partition < partitions_ && !empty) return {};
    return {Code::kInvalidArgument, Where(partition) + ": there is none, or nothing to append"};
  }

  // The client copies the record. Waits until it has room.
  Status Produce(uint32_t partition, const TopicRecord& record, Time until) {
    while (rd_kafka_produce(topic_.get(), static_cast<int32_t>(partition), RD_KAFKA_MSG_F_COPY,
                            const_cast<char*>(record.value.data()), record.value.size(),  // NOLINT: copied
                            record.key.data(), record.key.size(), nullptr) != 0) {
      const auto error = rd_kafka_last_error();
      if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
        return {Code::kInvalidArgument, Where(partition) + ": a record of " +
                                            std::to_string(record.value.size()) +
                                            " bytes is too large (message.max.bytes)"};
      }
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL || clock_.Now() >= until)
        return client_.Error(error, Where(partition));
      TakeReports(std::chrono::milliseconds(10));
    }
    ++waiting_;
    waiting_bytes_ += record.value.size();
    return {};
  }

  // Waits for the first report, and takes those that come with it. False: there was none.
  bool TakeReports(Duration timeout) {
    const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> event(
        rd_kafka_queue_poll(reports_.get(), Milliseconds(timeout)), rd_kafka_event_destroy);
    if (event == nullptr || rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR) return false;
    while (const rd_kafka_message_t* message = rd_kafka_event_message_next(event.get())) {
      --waiting_;
      waiting_bytes_ -= message->len;
      if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        error_ = message->err;
        ++failed_;
      } else if (first_ < 0 || message->offset < first_) {
        first_ = message->offset;
      }
    }
    return true;
  }

  // Waits until some records are acknowledged, or an error is known.
  Status AwaitReports() {
    const Time until = clock_.Now() + options_.timeout;
    while (!TakeReports(until - clock_.Now())) {
      if (clock_.Now() >= until) return NoAnswer(Where());
    }
    return client_.Error(error_, Where());
  }

  Status NoAnswer(const std::string& where) const {
    const std::string last = client_.LastError();
    return {Code::kUnavailable, where + ": " + std::to_string(waiting_) +
                                    " records are not acknowledged after " +
                                    std::to_string(Milliseconds(options_.timeout) / 1000) + " s" +
                                    (last.empty() ? "" : " (" + last + ")")};
  }

  const MonotonicClock clock_;
  const KafkaOptions options_;
  const uint32_t partitions_;
  const KafkaClient client_;
  const KafkaPtr<rd_kafka_topic_t> topic_;
  const KafkaPtr<rd_kafka_queue_t> reports_;
  size_t sent_ = 0;  // of the records of the current Append
  // The brokers' answers so far.
  uint64_t waiting_ = 0, waiting_bytes_ = 0;
  uint64_t failed_ = 0;
  int64_t first_ = -1;  // offset of the records of the current Append
  rd_kafka_resp_err_t error_ = RD_KAFKA_RESP_ERR_NO_ERROR;
};

}  // namespace

Result<std::unique_ptr<TopicWriter>> OpenKafkaWriter(const KafkaOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const uint32_t partitions, CountKafkaPartitions(options));
  // A record is sent again until it is acknowledged, so that it has its place and counts once.
  LEAT_ASSIGN_OR_RETURN(auto client,
                        KafkaClient::Make(RD_KAFKA_PRODUCER, options,
                                          {{"enable.idempotence", "true"}, {"message.timeout.ms", "0"}}));
  KafkaPtr<rd_kafka_topic_t> topic(rd_kafka_topic_new(client.get(), options.topic.c_str(), nullptr));
  if (topic == nullptr) return client.Error(rd_kafka_last_error(), "Kafka topic '" + options.topic + "'");
  KafkaPtr<rd_kafka_queue_t> reports(rd_kafka_queue_get_main(client.get()));
  return std::unique_ptr<TopicWriter>(std::make_unique<KafkaWriter>(options, partitions, std::move(client),
                                                                    std::move(topic), std::move(reports)));
}

}  // namespace leat::stream
