#include "stream/kafka/kafka_transactions.h"

#include <utility>

namespace leat::stream {
namespace {

struct ErrorDeleter {
  void operator()(rd_kafka_error_t* error) const { rd_kafka_error_destroy(error); }
};
using KafkaError = std::unique_ptr<rd_kafka_error_t, ErrorDeleter>;

class Transactions final : public KafkaTransactions {
 public:
  explicit Transactions(const KafkaTransactionOptions& options)
      : options_(options),
        where_("predictions to Kafka topic '" + options.kafka.topic + "', partition " +
               std::to_string(options.partition) + " of '" + options.topic + "'") {}
  ~Transactions() override {
    if (!producer_) return;
    // What is not acknowledged belongs to a transaction that was not committed.
    rd_kafka_purge(producer_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  }

  Status Init() {
    // The transaction is given up by the brokers when its process is lost, so that readers go on.
    LEAT_ASSIGN_OR_RETURN(producer_, KafkaClient::Make(RD_KAFKA_PRODUCER, options_.kafka,
                                                       {{"transactional.id", options_.id},
                                                        {"transaction.timeout.ms", "60000"},
                                                        {"linger.ms", "5"}}));
    LEAT_RETURN_IF_ERROR(ToStatus(rd_kafka_init_transactions(producer_.get(), Timeout())));
    return ReadCommitted();
  }

  std::optional<uint64_t> committed() const override { return committed_; }

  Status Write(std::span<const Record> records, uint64_t offset) override {
    LEAT_RETURN_IF_ERROR(ToStatus(rd_kafka_begin_transaction(producer_.get())));
    for (const Record& record : records) LEAT_RETURN_IF_ERROR(Produce(record));
    const KafkaPtr<rd_kafka_topic_partition_list_t> note(rd_kafka_topic_partition_list_new(1));
    rd_kafka_topic_partition_list_add(note.get(), options_.topic.c_str(),
                                      static_cast<int32_t>(options_.partition))
        ->offset = static_cast<int64_t>(offset);
    const std::unique_ptr<rd_kafka_consumer_group_metadata_t,
                          decltype(&rd_kafka_consumer_group_metadata_destroy)>
        group(rd_kafka_consumer_group_metadata_new(options_.group.c_str()),
              rd_kafka_consumer_group_metadata_destroy);
    LEAT_RETURN_IF_ERROR(
        ToStatus(rd_kafka_send_offsets_to_transaction(producer_.get(), note.get(), group.get(), Timeout())));
    LEAT_RETURN_IF_ERROR(ToStatus(rd_kafka_commit_transaction(producer_.get(), Timeout())));
    committed_ = offset;
    return {};
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

  Status ReadCommitted() {
    LEAT_ASSIGN_OR_RETURN(const auto reader,
                          KafkaClient::Make(RD_KAFKA_CONSUMER, options_.kafka,
                                            {{"group.id", options_.group}, {"enable.auto.commit", "false"}}));
    const KafkaPtr<rd_kafka_topic_partition_list_t> note(rd_kafka_topic_partition_list_new(1));
    rd_kafka_topic_partition_list_add(note.get(), options_.topic.c_str(),
                                      static_cast<int32_t>(options_.partition));
    LEAT_RETURN_IF_ERROR(reader.Error(rd_kafka_committed(reader.get(), note.get(), Timeout()), where_));
    LEAT_RETURN_IF_ERROR(reader.Error(note->elems[0].err, where_));
    if (note->elems[0].offset >= 0) committed_ = static_cast<uint64_t>(note->elems[0].offset);
    return {};
  }

  Status ToStatus(rd_kafka_error_t* raw) const {
    const KafkaError error(raw);
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
  std::optional<uint64_t> committed_;
};

}  // namespace

Result<std::unique_ptr<KafkaTransactions>> KafkaTransactions::Open(const KafkaTransactionOptions& options) {
  auto transactions = std::make_unique<Transactions>(options);
  LEAT_RETURN_IF_ERROR(transactions->Init());
  return std::unique_ptr<KafkaTransactions>(std::move(transactions));
}

}  // namespace leat::stream
