#include "stream/kafka/kafka_outputs.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "stream/kafka/kafka_producer.h"

namespace leat::stream {
namespace {

class KafkaDeadLetters final : public DeadLetterSink {
 public:
  KafkaDeadLetters(const KafkaOptions& options, std::string from, KafkaProducer producer)
      : options_(options), from_(std::move(from)), producer_(std::move(producer)) {
    producer_.OnReport([this](const KafkaProducer::Report& report) { Take(report); });
  }

  Status Keep(const RecordBatch& batch, std::span<const DecodedRows::DeadLetter> dead) override {
    const Time until = MonotonicClock().Now() + options_.timeout;
    producer_.Restart();  // reports of an earlier call that has failed may come late
    failed_ = RD_KAFKA_RESP_ERR_NO_ERROR;
    too_large_.clear();
    for (uint32_t i = 0; i < dead.size(); ++i)
      LEAT_RETURN_IF_ERROR(Send(batch, dead[i], i, /*whole=*/true, until));
    LEAT_RETURN_IF_ERROR(AwaitReports(until));
    // The brokers take less than the client.
    for (const uint32_t i : std::exchange(too_large_, {}))
      LEAT_RETURN_IF_ERROR(Send(batch, dead[i], i, /*whole=*/false, until));
    return AwaitReports(until);
  }

 private:
  std::string Where() const { return "dead letters to " + options_.Where(); }

  Status Send(const RecordBatch& batch, const DecodedRows::DeadLetter& letter, uint32_t index, bool whole,
              Time until) {
    const size_t record = letter.offset - batch.first_offset;
    const std::array<KafkaProducer::Header, 4> headers = {
        {{"leat.topic", from_},
         {"leat.partition", std::to_string(batch.partition)},
         {"leat.offset", std::to_string(letter.offset)},
         {"leat.reason", letter.reason}}};
    const auto key = batch.Value(IndexOf(batch.wanted, Attribute::Kind::kKey), record);
    const auto error = producer_.Produce({.value = whole ? AsText(batch[record]) : letter.record,
                                          .key = key ? AsText(*key) : std::string_view(),
                                          .headers = headers,
                                          .number = index},
                                         until);
    if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && whole)
      return Send(batch, letter, index, /*whole=*/false, until);
    return producer_.Error(error, Where());
  }

  Status AwaitReports(Time until) {
    LEAT_RETURN_IF_ERROR(producer_.AwaitAll(until, Where()));
    return producer_.Error(failed_, Where());
  }

  void Take(const KafkaProducer::Report& report) {
    if (report.error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
      too_large_.push_back(report.number);
    } else if (report.error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      failed_ = report.error;
    }
  }

  const KafkaOptions options_;
  const std::string from_;
  KafkaProducer producer_;
  rd_kafka_resp_err_t failed_ = RD_KAFKA_RESP_ERR_NO_ERROR;
  std::vector<uint32_t> too_large_;  // indices of letters
};

}  // namespace

Result<std::unique_ptr<DeadLetterSink>> OpenKafkaDeadLetters(const KafkaOptions& options, std::string from) {
  LEAT_ASSIGN_OR_RETURN(auto producer, KafkaProducer::Make(options, {{"linger.ms", "2"}}));
  return std::unique_ptr<DeadLetterSink>(
      std::make_unique<KafkaDeadLetters>(options, std::move(from), std::move(producer)));
}

}  // namespace leat::stream
