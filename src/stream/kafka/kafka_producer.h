// Hands records to a topic of a Kafka cluster with the idempotent producer: a record that is sent again is
// appended once. librdkafka sends them in the background, and reports the outcome of each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/status.h"
#include "stream/kafka/kafka_client.h"

namespace leat::stream {

// Not thread-safe.
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
                                    const Settings& own = {});
  KafkaProducer(KafkaProducer&&) = default;
  // Records that have no report by now belong to a call that has failed: they are given up.
  ~KafkaProducer();

  // Receives all reports. To be set before the first record.
  void OnReport(std::function<void(const Report&)> on_report) { on_report_ = std::move(on_report); }
  // Copies the record and hands it over. While librdkafka has no room, it waits and takes reports, until
  // `until`.
  rd_kafka_resp_err_t Produce(const Record& record, Time until);
  // Waits for the first report, and takes those that come with it. False: there was none.
  bool TakeReports(Duration timeout);
  // Takes reports until each record has one. kUnavailable: some have none by `until`. `where` names the
  // records in errors.
  Status AwaitAll(Time until, const std::string& where);
  // Forgets the records so far: what becomes of them is not reported.
  void Restart();
  // Records without a report, since Restart.
  uint64_t waiting() const { return waiting_; }
  uint64_t waiting_bytes() const { return waiting_bytes_; }

  // kUnavailable, with the number of records that have no report after this time.
  Status NoAnswer(Duration waited, const std::string& where) const;
  Status Error(rd_kafka_resp_err_t error, const std::string& where) const {
    return client_.Error(error, where);
  }

 private:
  KafkaProducer(KafkaClient client, KafkaPtr<rd_kafka_topic_t> topic, KafkaPtr<rd_kafka_queue_t> reports);
  rd_kafka_resp_err_t TryProduce(const Record& record) const;

  KafkaClient client_;
  KafkaPtr<rd_kafka_topic_t> topic_;
  KafkaPtr<rd_kafka_queue_t> reports_;
  std::function<void(const Report&)> on_report_;
  uint32_t starts_ = 0;  // calls of Restart
  uint64_t waiting_ = 0, waiting_bytes_ = 0;
};

}  // namespace leat::stream
