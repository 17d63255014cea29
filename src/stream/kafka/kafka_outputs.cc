#include "stream/kafka/kafka_topic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace leat::stream {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(10);  // between two attempts

// A report names the record and the last Restart before it.
constexpr int kNumberBits = 32;

// Hands records to a topic of a Kafka cluster with the idempotent producer: a record that is sent again is
// appended once. librdkafka sends them in the background, and reports the outcome of each. Not thread-safe.
class KafkaProducer {
 public:
  using Settings = std::map<std::string, std::string>;
  using Header = std::pair<const char*, std::string>;  // name, text
  struct Record {
    std::string_view value;
    std::string_view key = {};                  // without data(): there is none
    int32_t partition = RD_KAFKA_PARTITION_UA;  // unassigned: the key decides
    std::span<const Header> headers = {};
    uint32_t number = 0;  // the report of the record has it
  };
  struct Report {
    uint32_t number = 0;
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    int64_t offset = 0;
  };

  // The job's settings replace those of `defaults`, but not those of `own`. A job's queue.buffering.max.ms,
  // another name of linger.ms, counts, too: settings are set in the order of their names.
  static Result<KafkaProducer> Make(const KafkaOptions& options, const Settings& defaults,
                                    const Settings& own = {}) {
    KafkaOptions complete = options;
    complete.settings.insert(defaults.begin(), defaults.end());
    Settings all = own;
    all["enable.idempotence"] = "true";
    KafkaProducer made;
    LEAT_ASSIGN_OR_RETURN(made.client_, KafkaClient::Make(RD_KAFKA_PRODUCER, complete, all));
    made.topic_.reset(rd_kafka_topic_new(made.client_.get(), options.topic.c_str(), nullptr));
    if (made.topic_ == nullptr) return made.Error(rd_kafka_last_error(), options.Where());
    made.reports_.reset(rd_kafka_queue_get_main(made.client_.get()));
    return made;
  }
  KafkaProducer(KafkaProducer&&) = default;
  // Records that have no report by now belong to a call that has failed: they are given up.
  ~KafkaProducer() {
    if (client_) rd_kafka_purge(client_.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  }

  // Receives all reports. To be set before the first record.
  void OnReport(std::function<void(const Report&)> on_report) { on_report_ = std::move(on_report); }

  // Copies the record and hands it over. While librdkafka has no room, it waits and takes reports, until
  // `until`.
  rd_kafka_resp_err_t Produce(const Record& record, Time until) {
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

  // Waits for the first report, and takes those that come with it. False: there was none.
  bool TakeReports(Duration timeout) {
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

  // Takes reports until each record has one. kUnavailable: some have none by `until`. `where` names the
  // records in errors.
  Status AwaitAll(Time until, const std::string& where) {
    const MonotonicClock clock;
    const Time began = clock.Now();
    while (waiting_ > 0) {
      const Time now = clock.Now();
      if (now >= until) return NoAnswer(now - began, where);
      TakeReports(until - now);
    }
    return {};
  }

  // Forgets the records so far: what becomes of them is not reported.
  void Restart() {
    ++starts_;
    waiting_ = waiting_bytes_ = 0;
  }
  // Records without a report, since Restart.
  uint64_t waiting() const { return waiting_; }
  uint64_t waiting_bytes() const { return waiting_bytes_; }

  // kUnavailable, with the number of records that have no report after this time.
  Status NoAnswer(Duration waited, const std::string& where) const {
    const std::string last = client_.LastError();
    return {Code::kUnavailable,
            StrCat(where, ": ", waiting_, " records are not acknowledged after ",
                   std::lround(Seconds(waited)), " s", last.empty() ? "" : " (" + last + ")")};
  }
  Status Error(rd_kafka_resp_err_t error, const std::string& where) const {
    return client_.Error(error, where);
  }

 private:
  KafkaProducer() = default;

  rd_kafka_resp_err_t TryProduce(const Record& record) const {
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

  KafkaClient client_;
  KafkaPtr<rd_kafka_topic_t> topic_;
  KafkaPtr<rd_kafka_queue_t> reports_;
  std::function<void(const Report&)> on_report_;
  uint32_t starts_ = 0;  // calls of Restart
  uint64_t waiting_ = 0, waiting_bytes_ = 0;
};

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
    return {Code::kInvalidArgument, StrCat(Where(partition), ": a record of ", record.value.size(),
                                           " bytes is too large (message.max.bytes)")};
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

Result<std::unique_ptr<TopicWriter>> OpenKafkaWriter(const KafkaOptions& options) {
  LEAT_ASSIGN_OR_RETURN(const uint32_t partitions, CountKafkaPartitions(options));
  // A record is sent again until it is acknowledged, so that it has its place and counts once.
  LEAT_ASSIGN_OR_RETURN(auto producer,
                        KafkaProducer::Make(options, kDefaults, {{"message.timeout.ms", "0"}}));
  return std::unique_ptr<TopicWriter>(
      std::make_unique<KafkaWriter>(options, partitions, std::move(producer)));
}

Result<std::unique_ptr<DeadLetterSink>> OpenKafkaDeadLetters(const KafkaOptions& options, std::string from) {
  LEAT_ASSIGN_OR_RETURN(auto producer, KafkaProducer::Make(options, {{"linger.ms", "2"}}));
  return std::unique_ptr<DeadLetterSink>(
      std::make_unique<KafkaDeadLetters>(options, std::move(from), std::move(producer)));
}

Result<std::unique_ptr<TopicTransactions>> OpenKafkaTransactions(const KafkaTransactionOptions& options) {
  auto transactions = std::make_unique<Transactions>(options);
  LEAT_RETURN_IF_ERROR(transactions->Init());
  return std::unique_ptr<TopicTransactions>(std::move(transactions));
}

}  // namespace leat::stream
