#include "stream/kafka/kafka_outputs.h"

#include <utility>

#include "stream/kafka/kafka_admin.h"

namespace leat::stream {
namespace {

class Transactions final : public TopicTransactions {
 public:
  explicit Transactions(const KafkaTransactionOptions& options)
      : options_(options),
        where_("predictions to " + options.kafka.Where() + ", transactional id '" + options.id + "'") {}
  ~Transactions() override {
    if (!producer_) return;
    // Records that are not acknowledged belong to a transaction that was not committed.
    rd_kafka_purge(producer_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  }

  Status Init() {
    // The transaction is given up by the brokers when its process is lost, so that readers go on.
    LEAT_ASSIGN_OR_RETURN(producer_, KafkaClient::Make(RD_KAFKA_PRODUCER, options_.kafka,
                                                       {{"transactional.id", options_.id},
                                                        {"transaction.timeout.ms", "60000"},
                                                        {"linger.ms", "5"}}));
    if (options_.partitions > 0)
      LEAT_RETURN_IF_ERROR(CreateKafkaTopic(producer_, options_.kafka, options_.partitions));
    return ToStatus(rd_kafka_init_transactions(producer_.get(), Timeout()));
  }

  Result<Notes> Committed(const std::vector<uint32_t>& partitions) override {
    return FindCommitted(producer_, options_.kafka, options_.group, options_.topic, partitions);
  }

  Status Write(std::span<const Record> records, const Notes& notes) override {
    LEAT_RETURN_IF_ERROR(ToStatus(rd_kafka_begin_transaction(producer_.get())));
    for (const Record& record : records) LEAT_RETURN_IF_ERROR(Produce(record));
    const KafkaPtr<rd_kafka_topic_partition_list_t> list(
        rd_kafka_topic_partition_list_new(static_cast<int>(notes.size())));
    for (const auto& [partition, offset] : notes) {
      rd_kafka_topic_partition_list_add(list.get(), options_.topic.c_str(), static_cast<int32_t>(partition))
          ->offset = static_cast<int64_t>(offset);
    }
    const KafkaPtr<rd_kafka_consumer_group_metadata_t> group(
        rd_kafka_consumer_group_metadata_new(options_.group.c_str()));
    LEAT_RETURN_IF_ERROR(
        ToStatus(rd_kafka_send_offsets_to_transaction(producer_.get(), list.get(), group.get(), Timeout())));
    return ToStatus(rd_kafka_commit_transaction(producer_.get(), Timeout()));
  }

 private:
  int Timeout() const { return Milliseconds(options_.kafka.timeout); }

  Status Produce(const Record& record) {
    const MonotonicClock clock;
    const Time until = clock.Now() + options_.kafka.timeout;
    const char* const key = record.key ? record.key->data() : nullptr;
    const size_t key_size = record.key ? record.key->size() : 0;
    for (;;) {
      const auto error = rd_kafka_producev(
          producer_.get(), RD_KAFKA_V_TOPIC(options_.kafka.topic.c_str()),
          RD_KAFKA_V_VALUE(const_cast<char*>(record.value.data()), record.value.size()),  // NOLINT: copied
          RD_KAFKA_V_KEY(key, key_size), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) return producer_.Error(error, where_);
      if (clock.Now() >= until) return producer_.Error(error, where_);
      rd_kafka_poll(producer_.get(), 10);
    }
  }

  Status ToStatus(rd_kafka_error_t* raw) const {
    const KafkaPtr<rd_kafka_error_t> error(raw);
    if (error == nullptr) return {};
    const auto code = rd_kafka_error_code(error.get());
    if (code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
        code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH)
      return {Code::kStale, where_ + ": another process publishes them"};
    const Status status = producer_.Error(code, where_);
    return {status.code(), where_ + ": " + rd_kafka_error_string(error.get())};
  }

  const KafkaTransactionOptions options_;
  const std::string where_;
  KafkaClient producer_;
};

}  // namespace

Result<std::unique_ptr<TopicTransactions>> OpenKafkaTransactions(const KafkaTransactionOptions& options) {
  auto transactions = std::make_unique<Transactions>(options);
  LEAT_RETURN_IF_ERROR(transactions->Init());
  return std::unique_ptr<TopicTransactions>(std::move(transactions));
}

}  // namespace leat::stream
