#include "stream/kafka/kafka_writer.h"

#include <string>
#include <utility>
#include <vector>

#include "stream/kafka/kafka_source.h"

namespace leat::stream {
namespace {

// The brokers' answers about the records of one Append.
struct Delivery {
  size_t waiting = 0;
  int64_t first = -1;  // offset
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
};

class KafkaWriter final : public TopicWriter {
 public:
  KafkaWriter(const KafkaOptions& options, uint32_t partitions, KafkaClient client,
              KafkaPtr<rd_kafka_queue_t> reports)
      : options_(options),
        partitions_(partitions),
        client_(std::move(client)),
        reports_(std::move(reports)) {}
  ~KafkaWriter() override {
    // What has not been acknowledged by now belongs to an append that has failed.
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  }

  Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) override {
    const std::string where = "Kafka topic '" + options_.topic + "' partition " + std::to_string(partition);
    if (partition >= partitions_ || records.empty())
      return Status(Code::kInvalidArgument, where + ": there is none, or nothing to append");
    const MonotonicClock clock;
    const Time until = clock.Now() + options_.timeout;
    // An append that has failed may still be on its way. The records of the next call are the same.
    while (sent_ < records.size()) {
      const auto error = rd_kafka_producev(client_.get(), RD_KAFKA_V_TOPIC(options_.topic.c_str()),
                                           RD_KAFKA_V_PARTITION(static_cast<int32_t>(partition)),
                                           RD_KAFKA_V_VALUE(const_cast<char*>(records[sent_].data()),
                                                            records[sent_].size()),  // NOLINT: copied
                                           RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
      if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL && clock.Now() < until) {
        TakeReports(std::chrono::milliseconds(10));
        continue;
      }
      if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return client_.Error(error, where);
      ++sent_;
      ++delivery_.waiting;
    }
    while (delivery_.waiting > 0) {
      const Duration left = until - clock.Now();
      if (left <= Duration::zero()) {
        return Status(Code::kUnavailable, where + ": " + std::to_string(delivery_.waiting) +
                                              " records are not acknowledged after " +
                                              std::to_string(Milliseconds(options_.timeout) / 1000) + " s");
      }
      TakeReports(left);
    }
    sent_ = 0;
    const Delivery delivery = std::exchange(delivery_, {});
    if (delivery.error != RD_KAFKA_RESP_ERR_NO_ERROR) return client_.Error(delivery.error, where);
    return static_cast<uint64_t>(delivery.first);
  }

  Status Seal() override { return {}; }
  uint32_t partitions() const override { return partitions_; }

 private:
  // Waits for the first report, and takes those that come with it.
  void TakeReports(Duration timeout) {
    const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> event(
        rd_kafka_queue_poll(reports_.get(), Milliseconds(timeout)), rd_kafka_event_destroy);
    if (event == nullptr || rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR) return;
    while (const rd_kafka_message_t* message = rd_kafka_event_message_next(event.get())) {
      --delivery_.waiting;
      if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        delivery_.error = message->err;
      } else if (delivery_.first < 0 || message->offset < delivery_.first) {
        delivery_.first = message->offset;
      }
    }
  }

  const KafkaOptions options_;
  const uint32_t partitions_;
  const KafkaClient client_;
  const KafkaPtr<rd_kafka_queue_t> reports_;
  size_t sent_ = 0;  // of the records of the current call
  Delivery delivery_;
};

}  // namespace

Result<std::unique_ptr<TopicWriter>> OpenKafkaWriter(const KafkaOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const KafkaOffsets there, FindKafkaOffsets(options));
  // A record is sent again until it is acknowledged, so that it has its place and counts once.
  LEAT_ASSIGN_OR_RETURN(auto client,
                        KafkaClient::Make(RD_KAFKA_PRODUCER, options,
                                          {{"enable.idempotence", "true"}, {"message.timeout.ms", "0"}}));
  KafkaPtr<rd_kafka_queue_t> reports(rd_kafka_queue_get_main(client.get()));
  return std::unique_ptr<TopicWriter>(std::make_unique<KafkaWriter>(
      options, static_cast<uint32_t>(there.end.size()), std::move(client), std::move(reports)));
}

}  // namespace leat::stream
