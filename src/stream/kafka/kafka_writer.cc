#include "stream/kafka/kafka_outputs.h"

#include <algorithm>
#include <string>
#include <utility>

#include "stream/kafka/kafka_producer.h"
#include "stream/kafka/kafka_source.h"

namespace leat::stream {
namespace {

// Records that Send hands over wait in memory until they are acknowledged, up to this size.
constexpr size_t kMostBytes = size_t{64} << 20;

// Settings that a job can replace. A full batch is sent at once, and the largest chunk of bots is one. An
// idempotent producer has one batch of a partition on its way; while more records wait for longer than
// linger.ms, librdkafka's thread polls without a pause. On two cores that cost a third of the throughput.
const KafkaProducer::Settings kDefaults = {{"linger.ms", "20"}, {"batch.num.messages", "2048"}};

class KafkaWriter final : public TopicWriter {
 public:
  KafkaWriter(const KafkaOptions& options, uint32_t partitions, KafkaProducer producer)
      : options_(options), partitions_(partitions), producer_(std::move(producer)) {
    producer_.OnReport([this](const KafkaProducer::Report& report) { Take(report); });
  }

  Result<uint64_t> Append(uint32_t partition, std::span<const std::string_view> records) override {
    const Time until = clock_.Now() + options_.timeout;
    LEAT_RETURN_IF_ERROR(HandOver(partition, records, until));
    return AwaitAppend(until);
  }

  Status Start(uint32_t partition, std::span<const std::string_view> records) override {
    return HandOver(partition, records, clock_.Now() + options_.timeout);
  }

  Status Finish(Duration timeout) override {
    return AwaitAppend(clock_.Now() + std::min(timeout, options_.timeout)).status();
  }

  Status Send(uint32_t partition, std::span<const TopicRecord> records) override {
    LEAT_RETURN_IF_ERROR(CheckPartition(partition, records.empty()));
    for (const TopicRecord& record : records) {
      while (producer_.waiting_bytes() > kMostBytes) LEAT_RETURN_IF_ERROR(AwaitReports());
      LEAT_RETURN_IF_ERROR(Produce(partition, record, clock_.Now() + options_.timeout));
    }
    producer_.TakeReports(Duration::zero());
    return producer_.Error(error_, Where());
  }

  Status Flush() override {
    while (producer_.waiting() > 0) LEAT_RETURN_IF_ERROR(AwaitReports());
    return producer_.Error(error_, Where());
  }

  uint64_t waiting() const override { return producer_.waiting() + failed_; }
  Status Seal() override { return {}; }
  uint32_t partitions() const override { return partitions_; }

 private:
  std::string Where(auto... partition) const { return options_.Where(partition...); }

  Status CheckPartition(uint32_t partition, bool empty) const {
    if (partition < partitions_ && !empty) return {};
    return {Code::kInvalidArgument, Where(partition) + ": there is none, or nothing to append"};
  }

  // An append that has failed may still be on its way. The records are the same then.
  Status HandOver(uint32_t partition, std::span<const std::string_view> records, Time until) {
    LEAT_RETURN_IF_ERROR(CheckPartition(partition, records.empty()));
    appending_to_ = partition;
    for (; sent_ < records.size(); ++sent_)
      LEAT_RETURN_IF_ERROR(Produce(partition, {.value = records[sent_]}, until));
    return {};
  }

  // Returns the offset of the first record.
  Result<uint64_t> AwaitAppend(Time until) {
    const std::string where = Where(appending_to_);
    LEAT_RETURN_IF_ERROR(producer_.AwaitAll(until, where));
    sent_ = 0;
    const int64_t first = std::exchange(first_, -1);
    LEAT_RETURN_IF_ERROR(producer_.Error(std::exchange(error_, RD_KAFKA_RESP_ERR_NO_ERROR), where));
    return static_cast<uint64_t>(first);
  }

  Status Produce(uint32_t partition, const TopicRecord& record, Time until) {
    const auto error = producer_.Produce(
        {.value = record.value, .key = record.key, .partition = static_cast<int32_t>(partition)}, until);
    if (error != RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) return producer_.Error(error, Where(partition));
    return {Code::kInvalidArgument, Where(partition) + ": a record of " +
                                        std::to_string(record.value.size()) +
                                        " bytes is too large (message.max.bytes)"};
  }

  void Take(const KafkaProducer::Report& report) {
    if (report.error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      error_ = report.error;
      ++failed_;
    } else if (first_ < 0 || report.offset < first_) {
      first_ = report.offset;
    }
  }

  // Waits until some records are acknowledged, or an error is known.
  Status AwaitReports() {
    const Time until = clock_.Now() + options_.timeout;
    while (!producer_.TakeReports(until - clock_.Now())) {
      if (clock_.Now() >= until) return producer_.NoAnswer(options_.timeout, Where());
    }
    return producer_.Error(error_, Where());
  }

  const MonotonicClock clock_;
  const KafkaOptions options_;
  const uint32_t partitions_;
  KafkaProducer producer_;
  // The current append.
  uint32_t appending_to_ = 0;
  size_t sent_ = 0;     // records that were handed over
  int64_t first_ = -1;  // offset of the first record
  // The brokers' answers so far.
  uint64_t failed_ = 0;
  rd_kafka_resp_err_t error_ = RD_KAFKA_RESP_ERR_NO_ERROR;
};

}  // namespace

Result<std::unique_ptr<TopicWriter>> OpenKafkaWriter(const KafkaOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const uint32_t partitions, CountKafkaPartitions(options));
  // A record is sent again until it is acknowledged, so that it has its place and counts once.
  LEAT_ASSIGN_OR_RETURN(auto producer,
                        KafkaProducer::Make(options, kDefaults, {{"message.timeout.ms", "0"}}));
  return std::unique_ptr<TopicWriter>(
      std::make_unique<KafkaWriter>(options, partitions, std::move(producer)));
}

}  // namespace leat::stream
