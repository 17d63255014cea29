#include "stream/kafka/kafka_dead_letters.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace leat::stream {
namespace {

class KafkaDeadLetters final : public DeadLetterSink {
 public:
  KafkaDeadLetters(const KafkaOptions& options, std::string from, KafkaClient client)
      : options_(options),
        from_(std::move(from)),
        client_(std::move(client)),
        reports_(rd_kafka_queue_get_main(client_.get())) {}
  ~KafkaDeadLetters() override {
    // Records that are not acknowledged yet belong to a call that has failed.
    rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  }

  Status Keep(const RecordBatch& batch, std::span<const DecodedRows::DeadLetter> dead) override {
    const Time until = MonotonicClock().Now() + options_.timeout;
    ++call_;
    waiting_ = 0;
    failed_ = RD_KAFKA_RESP_ERR_NO_ERROR;
    too_large_.clear();
    for (size_t i = 0; i < dead.size(); ++i)
      LEAT_RETURN_IF_ERROR(Send(batch, dead[i], i, /*whole=*/true, until));
    LEAT_RETURN_IF_ERROR(AwaitReports(until));
    // The brokers take less than the client.
    for (const size_t i : std::exchange(too_large_, {}))
      LEAT_RETURN_IF_ERROR(Send(batch, dead[i], i, /*whole=*/false, until));
    return AwaitReports(until);
  }

 private:
  std::string Where() const { return "dead letters to Kafka topic '" + options_.topic + "'"; }

  Status Send(const RecordBatch& batch, const DecodedRows::DeadLetter& letter, size_t index, bool whole,
              Time until) {
    const size_t record = letter.offset - batch.first_offset;
    const ByteView bytes = whole ? batch[record] : AsBytes(letter.record);
    const auto key = batch.Value(KeyOf(batch), record);
    for (;;) {
      const auto error = Produce(batch.partition, letter, bytes, key, index);
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) break;
      if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE && whole)
        return Send(batch, letter, index, /*whole=*/false, until);
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL || MonotonicClock().Now() >= until)
        return client_.Error(error, Where());
      TakeReports(std::chrono::milliseconds(10));
    }
    ++waiting_;
    return {};
  }

  rd_kafka_resp_err_t Produce(uint32_t partition, const DecodedRows::DeadLetter& letter, ByteView bytes,
                              std::optional<ByteView> key, size_t index) {
    constexpr size_t kHeaders = 4;
    rd_kafka_headers_t* headers = rd_kafka_headers_new(kHeaders);
    const auto add = [headers](const char* name, std::string_view text) {
      rd_kafka_header_add(headers, name, -1, text.data(), static_cast<ssize_t>(text.size()));
    };
    add("leat.topic", from_);
    add("leat.partition", std::to_string(partition));
    add("leat.offset", std::to_string(letter.offset));
    add("leat.reason", letter.reason);
    // A report names the call and the letter, because one of an earlier call that has failed may come late.
    const auto opaque = reinterpret_cast<void*>(uintptr_t{call_} << kIndexBits | index);  // NOLINT
    const std::byte* const key_bytes = key ? key->data() : nullptr;
    const size_t key_size = key ? key->size() : 0;
    const auto error = rd_kafka_producev(
        client_.get(), RD_KAFKA_V_TOPIC(options_.topic.c_str()),
        RD_KAFKA_V_VALUE(const_cast<std::byte*>(bytes.data()), bytes.size()),  // NOLINT: copied
        RD_KAFKA_V_KEY(key_bytes, key_size), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_OPAQUE(opaque),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
      rd_kafka_headers_destroy(headers);  // else they are the message's
    return error;
  }

  Status AwaitReports(Time until) {
    while (waiting_ > 0) {
      const Duration left = until - MonotonicClock().Now();
      if (left <= Duration::zero())
        return {Code::kUnavailable, Where() + ": " + std::to_string(waiting_) +
                                        " are not acknowledged after " +
                                        std::to_string(Milliseconds(options_.timeout) / 1000) + " s"};
      TakeReports(left);
    }
    return client_.Error(failed_, Where());
  }

  // Waits for the first report, and takes those that come with it.
  void TakeReports(Duration timeout) {
    const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> event(
        rd_kafka_queue_poll(reports_.get(), Milliseconds(timeout)), rd_kafka_event_destroy);
    if (event == nullptr || rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR) return;
    while (const rd_kafka_message_t* message = rd_kafka_event_message_next(event.get())) {
      const auto opaque = reinterpret_cast<uintptr_t>(message->_private);
      if (opaque >> kIndexBits != call_) continue;
      --waiting_;
      if (message->err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
        too_large_.push_back(opaque & ((uintptr_t{1} << kIndexBits) - 1));
      } else if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        failed_ = message->err;
      }
    }
  }

  static size_t KeyOf(const RecordBatch& batch) {
    return static_cast<size_t>(std::ranges::find(batch.wanted, Attribute::Kind::kKey, &Attribute::kind) -
                               batch.wanted.begin());
  }

  static constexpr int kIndexBits = 32;
  const KafkaOptions options_;
  const std::string from_;
  const KafkaClient client_;
  const KafkaPtr<rd_kafka_queue_t> reports_;
  uint32_t call_ = 0;
  size_t waiting_ = 0;  // letters of this call that are not acknowledged
  rd_kafka_resp_err_t failed_ = RD_KAFKA_RESP_ERR_NO_ERROR;
  std::vector<size_t> too_large_;  // indices of letters
};

}  // namespace

Result<std::unique_ptr<DeadLetterSink>> OpenKafkaDeadLetters(const KafkaOptions& options, std::string from) {
  LEAT_ASSIGN_OR_RETURN(auto client,
                        KafkaClient::Make(RD_KAFKA_PRODUCER, options, {{"enable.idempotence", "true"}}));
  return std::unique_ptr<DeadLetterSink>(
      std::make_unique<KafkaDeadLetters>(options, std::move(from), std::move(client)));
}

}  // namespace leat::stream
