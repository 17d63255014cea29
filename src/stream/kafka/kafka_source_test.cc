// Against the broker that librdkafka has for tests. It knows no transactions; a system test has a real one.
#include "stream/kafka/kafka_topic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stream/kafka/testing.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kTopic = "payments";

class KafkaSourceTest : public MockClusterTest {
 protected:
  void SetUp() override {
    MockClusterTest::SetUp();
    if (cluster() == nullptr) return;
    MakeTopic(kTopic, 2);
    options_ = OptionsOf(kTopic);
    auto writer = OpenKafkaWriter(options_);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    writer_ = std::move(*writer);
  }
  void TearDown() override {
    writer_.reset();
    MockClusterTest::TearDown();
  }
  void Publish(uint32_t partition, const std::vector<std::string>& records) {
    const auto appended =
        writer_->Append(partition, std::vector<std::string_view>(records.begin(), records.end()));
    ASSERT_TRUE(appended.ok()) << appended.status().ToString();
  }
  void PublishNumbers(uint32_t partition, int from, int to) {
    std::vector<std::string> records;
    for (int i = from; i < to; ++i) records.push_back(std::to_string(i));
    Publish(partition, records);
  }
  // Publishes a record to partition 0.
  void Send(const char* value, const char* key, int64_t ms,
            const std::vector<std::pair<std::string, std::string>>& headers) {
    auto producer = KafkaClient::Make(RD_KAFKA_PRODUCER, options_, {});
    ASSERT_TRUE(producer.ok()) << producer.status().ToString();
    rd_kafka_headers_t* list = rd_kafka_headers_new(headers.size());
    for (const auto& [name, text] : headers)
      rd_kafka_header_add(list, name.c_str(), -1, text.data(), static_cast<ssize_t>(text.size()));
    const size_t key_size = key != nullptr ? std::strlen(key) : 0;
    const auto sent =
        rd_kafka_producev(producer->get(), RD_KAFKA_V_TOPIC(options_.topic.c_str()), RD_KAFKA_V_PARTITION(0),
                          RD_KAFKA_V_VALUE(const_cast<char*>(value), std::strlen(value)),  // NOLINT: copied
                          RD_KAFKA_V_KEY(key, key_size), RD_KAFKA_V_TIMESTAMP(ms), RD_KAFKA_V_HEADERS(list),
                          RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
    ASSERT_EQ(sent, RD_KAFKA_RESP_ERR_NO_ERROR);
    const KafkaPtr<rd_kafka_queue_t> reports(rd_kafka_queue_get_main(producer->get()));
    const std::unique_ptr<rd_kafka_event_t, decltype(&rd_kafka_event_destroy)> event(
        rd_kafka_queue_poll(reports.get(), 10'000), rd_kafka_event_destroy);
    ASSERT_NE(event, nullptr);
    ASSERT_EQ(rd_kafka_event_message_next(event.get())->err, RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  std::unique_ptr<TimedSource> Open() {
    auto source = OpenKafka(options_);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    return source.ok() ? std::move(*source) : nullptr;
  }
  // Reads the numbers [begin, end) of partition 0.
  static void ExpectNumbers(Source& source, int begin, int end) {
    RecordBatch batch;
    const Status read = source.Read(0, static_cast<uint64_t>(begin), static_cast<uint64_t>(end), &batch);
    ASSERT_TRUE(read.ok()) << read.ToString();
    ASSERT_EQ(batch.size(), static_cast<size_t>(end - begin));
    for (int i = begin; i < end; ++i)
      ASSERT_EQ(AsText(batch[static_cast<size_t>(i - begin)]), std::to_string(i));
    EXPECT_THAT(batch.absent, IsEmpty());
  }

  KafkaOptions options_;
  std::unique_ptr<TopicWriter> writer_;
};

TEST_F(KafkaSourceTest, APartitionGrows) {
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  const auto range = [](uint32_t id, uint64_t end) { return PartitionRange{id, 0, end, false}; };
  auto ranges = source->Ranges();
  ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
  EXPECT_THAT(*ranges, ElementsAre(range(0, 0), range(1, 0)));
  Publish(1, {"a", "", "ccc"});
  ranges = source->Ranges();
  ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
  EXPECT_THAT(*ranges, ElementsAre(range(0, 0), range(1, 3)));

  RecordBatch batch;
  ASSERT_TRUE(source->Read(1, 0, 3, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "", "ccc"));
  EXPECT_EQ(batch.partition, 1u);
  EXPECT_EQ(batch.first_offset, 0u);
  EXPECT_EQ(batch.data.size(), 4 + RecordBatch::kPadding);
  ASSERT_TRUE(source->Read(1, 2, 2, &batch).ok());
  EXPECT_EQ(batch.size(), 0u);
}

TEST_F(KafkaSourceTest, ReadsAnyRangeInAnyOrder) {
  PublishNumbers(0, 0, 30'000);
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  ExpectNumbers(*source, 0, 1000);
  ExpectNumbers(*source, 1000, 2500);  // goes on
  ExpectNumbers(*source, 4000, 4001);  // skips what is prefetched
  ExpectNumbers(*source, 0, 10);       // goes back
  ExpectNumbers(*source, 29'000, 30'000);
  PublishNumbers(0, 30'000, 30'010);  // after the end was seen
  ExpectNumbers(*source, 30'000, 30'010);
  ExpectNumbers(*source, 0, 30'010);
}

TEST_F(KafkaSourceTest, PartitionsAreReadInTurn) {
  PublishNumbers(0, 0, 3000);
  Publish(1, {"x", "y", "z"});
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  RecordBatch batch;
  for (int i = 0; i < 3; ++i) {
    ExpectNumbers(*source, 1000 * i, 1000 * (i + 1));
    ASSERT_TRUE(source->Read(1, static_cast<uint64_t>(i), static_cast<uint64_t>(i) + 1, &batch).ok());
    EXPECT_THAT(TextsOf(batch), ElementsAre(std::string(1, static_cast<char>('x' + i))));
  }
}

TEST_F(KafkaSourceTest, SmallQueuesAreFilledAgainAtOnce) {
  constexpr uint64_t kRecords = 300, kSplit = 20, kChunk = 5;
  const std::vector<std::string> chunk(kChunk, std::string(10'000, 'x'));
  for (uint64_t i = 0; i < kRecords; i += kChunk) {
    Publish(0, chunk);
    Publish(1, chunk);
  }
  options_.prefetch_bytes = 256 << 10;  // a dozen records of each partition
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  const auto begin = std::chrono::steady_clock::now();
  RecordBatch batch;
  for (uint64_t at = 0; at < kRecords; at += kSplit) {
    for (const uint32_t id : {0, 1}) {
      const Status read = source->Read(id, at, at + kSplit, &batch);
      ASSERT_TRUE(read.ok()) << read.ToString();
      ASSERT_EQ(batch.offsets.back(), kSplit * 10'000);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10))
      << "20 s or more without Wake";
}

TEST_F(KafkaSourceTest, QueuesBeyondTheBudgetAreGivenUp) {
  constexpr uint32_t kPartitions = 8;
  constexpr uint64_t kRecords = 3000, kSplit = 300;
  MakeTopic("many", kPartitions);
  options_ = OptionsOf("many");
  auto writer = OpenKafkaWriter(options_);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  writer_ = std::move(*writer);
  for (uint32_t id = 0; id < kPartitions; ++id) PublishNumbers(id, 0, kRecords);
  options_.prefetch_bytes = 64 << 10;  // a hundred records in all
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  RecordBatch batch;
  for (uint64_t at = 0; at < kRecords; at += kSplit) {
    for (uint32_t id = 0; id < kPartitions; ++id) {
      const Status read = source->Read(id, at, at + kSplit, &batch);
      ASSERT_TRUE(read.ok()) << read.ToString();
      ASSERT_EQ(batch.size(), kSplit);
      for (uint64_t i = 0; i < kSplit; ++i) ASSERT_EQ(AsText(batch[i]), std::to_string(at + i));
    }
  }
}

TEST_F(KafkaSourceTest, PartitionsOfABrokerAreAskedAtOnce) {
  constexpr int kPartitions = 200;
  MakeTopic("many", kPartitions);
  options_ = OptionsOf("many");
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  ASSERT_TRUE(source->Ranges().ok());
  rd_kafka_mock_broker_set_rtt(cluster(), 1, 100);
  const auto begin = std::chrono::steady_clock::now();
  const auto ranges = source->Ranges();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "30 s one after the other";
  ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
  ASSERT_EQ(ranges->size(), static_cast<size_t>(kPartitions));
  EXPECT_EQ(ranges->back().partition, 199u);
}

TEST_F(KafkaSourceTest, ReadsWithinTheBoundsOfTheJob) {
  PublishNumbers(0, 0, 10);
  Publish(1, {"a", "b"});
  const auto now = FindKafkaOffsets(options_);
  ASSERT_TRUE(now.ok()) << now.status().ToString();
  EXPECT_THAT(now->begin, ElementsAre(0, 0));
  EXPECT_THAT(now->end, ElementsAre(10, 2));
  options_.start = {4, 2};
  options_.end = {12, 2};
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  const auto ranges = [&] {
    auto found = source->Ranges();
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    return *found;
  };
  EXPECT_THAT(ranges(), ElementsAre(PartitionRange{0, 4, 10, false}, PartitionRange{1, 2, 2, true}));
  PublishNumbers(0, 10, 15);
  EXPECT_THAT(ranges(), ElementsAre(PartitionRange{0, 4, 12, true}, PartitionRange{1, 2, 2, true}));

  options_.end.clear();
  options_.records = 17;
  EXPECT_THAT(*Open()->Ranges(), ElementsAre(PartitionRange{0, 4, 15, true}, PartitionRange{1, 2, 2, true}));
  options_.records = 18;
  EXPECT_THAT(*Open()->Ranges(),
              ElementsAre(PartitionRange{0, 4, 15, false}, PartitionRange{1, 2, 2, false}));

  options_.records = 0;
  options_.start = {0};  // the second partition is none that the job can read
  EXPECT_EQ(Open()->Ranges()->size(), 1u);
  options_.start = {0, 0, 0};  // a third one may be added
  EXPECT_THAT(*Open()->Ranges(), ElementsAre(PartitionRange{0, 0, 15, false}, PartitionRange{1, 0, 2, false},
                                             PartitionRange{2, 0, 0, false}));
  options_.end = {15, 2, 0};
  EXPECT_THAT(*Open()->Ranges(), ElementsAre(PartitionRange{0, 0, 15, true}, PartitionRange{1, 0, 2, true},
                                             PartitionRange{2, 0, 0, true}));
}

TEST_F(KafkaSourceTest, APartitionWithoutALeaderIsAskedAgain) {
  Publish(0, {"a"});
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  constexpr int16_t kListOffsets = 2;  // number in Kafka's protocol
  rd_kafka_mock_push_request_errors(cluster(), kListOffsets, 2, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                    RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE);
  const auto ranges = source->Ranges();
  ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
  EXPECT_EQ((*ranges)[0].end, 1u);
  rd_kafka_mock_push_request_errors(cluster(), kListOffsets, 1, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
  const auto since = FindKafkaOffsets(options_, 1);
  ASSERT_TRUE(since.ok()) << since.status().ToString();
  EXPECT_THAT(*since, ElementsAre(1, 0)) << "this broker takes every time for the end";
}

TEST_F(KafkaSourceTest, APartitionWithoutALeaderHoldsUpNoOtherOne) {
  Publish(0, {"a"});
  Publish(1, {"x", "y"});
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  ASSERT_TRUE(source->Ranges().ok());
  const MonotonicClock clock;
  // Returns the ranges, which must not take long.
  const auto ranges = [&] {
    const Time began = clock.Now();
    auto found = source->Ranges();
    EXPECT_LT(Seconds(clock.Now() - began), 15) << "the timeout is 30 s";
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    return found.ok() ? *found : std::vector<PartitionRange>(2);
  };
  RecordBatch batch;
  const auto read = [&](uint32_t partition, uint64_t begin, uint64_t end) {
    const Time began = clock.Now();
    const Status status = source->Read(partition, begin, end, &batch);
    EXPECT_LT(Seconds(clock.Now() - began), 15) << status.ToString();
    return status;
  };

  rd_kafka_mock_partition_set_leader(cluster(), kTopic, 1, -1);
  Publish(0, {"b"});
  auto found = ranges();
  EXPECT_EQ(found[0], (PartitionRange{0, 0, 2, false}));
  EXPECT_EQ(found[1].end, 2u) << "as last known";
  EXPECT_THAT(found[1].unasked, HasSubstr("'payments' partition 1: no broker leads it"));
  EXPECT_EQ(read(1, 0, 2).code(), Code::kUnavailable);
  ASSERT_TRUE(read(0, 0, 2).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "b"));

  rd_kafka_mock_partition_set_leader(cluster(), kTopic, 1, 1);
  const Time until = clock.Now() + std::chrono::seconds(60);
  do {
    found = ranges();
  } while (!found[1].unasked.empty() && clock.Now() < until);
  EXPECT_EQ(found[1], (PartitionRange{1, 0, 2, false}));
  while (!read(1, 0, 2).ok() && clock.Now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_THAT(TextsOf(batch), ElementsAre("x", "y"));
}

TEST_F(KafkaSourceTest, APartitionThatIsNotKnownYetIsWaitedFor) {
  Publish(1, {"x"});
  rd_kafka_mock_partition_set_leader(cluster(), kTopic, 1, -1);
  options_.timeout = std::chrono::milliseconds(500);
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  const auto found = source->Ranges();
  EXPECT_EQ(found.status().code(), Code::kUnavailable) << "where it begins and ends is not known";
}

TEST_F(KafkaSourceTest, RecordsHaveKeysTimestampsAndHeaders) {
  Send("a", "k1", 1'700'000'000'123, {{"shop", "1"}, {"other", "x"}, {"shop", "2"}});
  Send("b", nullptr, 1'700'000'000'124, {});
  Send("", "", 5, {{"shop", ""}});
  RecordBatch batch;
  batch.wanted = {
      {Attribute::Kind::kTimestamp, ""}, {Attribute::Kind::kKey, ""}, {Attribute::Kind::kHeader, "shop"}};
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  ASSERT_TRUE(source->Read(0, 0, 3, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "b", ""));
  std::vector<std::string> values;
  for (size_t i = 0; i < 3; ++i) {
    int64_t ms = 0;
    const auto timestamp = batch.Value(0, i);
    ASSERT_TRUE(timestamp.has_value() && timestamp->size() == sizeof(ms));
    std::memcpy(&ms, timestamp->data(), sizeof(ms));
    values.push_back(std::to_string(ms));
    for (const size_t attribute : {1, 2}) {
      const auto value = batch.Value(attribute, i);
      values.push_back(value ? "'" + std::string(AsText(*value)) + "'" : "none");
    }
  }
  EXPECT_THAT(values,
              ElementsAre("1700000000123", "'k1'", "'2'", "1700000000124", "none", "none", "5", "''", "''"));
}

TEST_F(KafkaSourceTest, TimesAreReadWithoutTheRecords) {
  for (const int64_t ms : {1'700'000'000'123, 1'700'000'000'100, 1'700'000'000'999})
    Send("a record", "k", ms, {});
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  RecordTimes times = {1, 2};
  ASSERT_TRUE(source->ReadTimes(0, 0, 2, &times).ok());
  EXPECT_THAT(times, ElementsAre(1'700'000'000'123, 1'700'000'000'100));
  ASSERT_TRUE(source->ReadTimes(0, 2, 3, &times).ok());
  EXPECT_THAT(times, ElementsAre(1'700'000'000'999));
  ASSERT_TRUE(source->ReadTimes(0, 1, 1, &times).ok());
  EXPECT_THAT(times, IsEmpty());
  RecordBatch batch;
  ASSERT_TRUE(source->Read(0, 0, 3, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a record", "a record", "a record")) << "a read has them again";
}

TEST_F(KafkaSourceTest, TheFirstRecordSinceATimeIsAskedFor) {
  Publish(1, {"a", "b"});
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  for (const int64_t ms : {-5, 1}) {
    const auto since = source->FirstSince(1, ms);
    ASSERT_TRUE(since.ok()) << since.status().ToString();
    EXPECT_EQ(*since, 2u) << "this broker takes every time for the end; a system test has a real one";
  }
}

TEST_F(KafkaSourceTest, AFingerprintIsOfTheLastRecordBeforeAnOffset) {
  Send("a", "k", 1, {});
  Send("b", "k", 2, {});
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  const auto of = [&](uint64_t offset) {
    const auto hash = source->Fingerprint(0, offset);
    EXPECT_TRUE(hash.ok()) << hash.status().ToString();
    return hash.ok() ? *hash : 0;
  };
  EXPECT_EQ(of(0), 0u);
  EXPECT_EQ(of(3), 0u) << "there is no such record";
  const uint64_t first = of(1), second = of(2);
  EXPECT_NE(first, 0u);
  EXPECT_NE(first, second);
  EXPECT_EQ(of(1), first);
  // The same offsets of other topics.
  const auto again = [&](const char* topic, const char* value, const char* key, int64_t ms) {
    MakeTopic(topic, 1);
    options_.topic = topic;
    Send(value, key, ms, {});
    const auto other = Open()->Fingerprint(0, 1);
    EXPECT_TRUE(other.ok());
    return *other;
  };
  EXPECT_EQ(again("same", "a", "k", 1), first);
  EXPECT_NE(again("value", "x", "k", 1), first);
  EXPECT_NE(again("key", "a", "x", 1), first);
  EXPECT_NE(again("no-key", "a", nullptr, 1), first);
  EXPECT_NE(again("time", "a", "k", 3), first);
}

TEST_F(KafkaSourceTest, AWriterAppendsInOrder) {
  EXPECT_EQ(writer_->partitions(), 2u);
  const std::vector<std::string_view> records = {"a", "", "c"};
  EXPECT_EQ(*writer_->Append(1, records), 0u);
  EXPECT_EQ(*writer_->Append(1, records), 3u);
  EXPECT_EQ(writer_->Append(2, records).status().code(), Code::kInvalidArgument);
  RecordBatch batch;
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  ASSERT_TRUE(source->Read(1, 0, 6, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "", "c", "a", "", "c"));
}

TEST_F(KafkaSourceTest, AnAppendIsStartedAndFinishedLater) {
  const std::vector<std::string_view> records = {"a", "b", "c"};
  ASSERT_TRUE(writer_->Append(1, records).ok());
  rd_kafka_mock_broker_set_down(cluster(), 1);
  ASSERT_TRUE(writer_->Start(1, records).ok()) << "nobody is waited for";
  const Status late = writer_->Finish(std::chrono::milliseconds(200));
  EXPECT_EQ(late.code(), Code::kUnavailable);
  EXPECT_THAT(late.message(), HasSubstr("'payments' partition 1: 3 records are not acknowledged"));
  rd_kafka_mock_broker_set_up(cluster(), 1);
  ASSERT_TRUE(writer_->Start(1, records).ok());
  const Status appended = writer_->Finish(Duration::max());
  ASSERT_TRUE(appended.ok()) << appended.ToString();
  const std::vector<std::string_view> next = {"d"};
  EXPECT_EQ(*writer_->Append(1, next), 6u) << "each record is there once";
  RecordBatch batch;
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  ASSERT_TRUE(source->Read(1, 0, 7, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "b", "c", "a", "b", "c", "d"));
}

TEST_F(KafkaSourceTest, AJobCanLetRecordsLinger) {
  for (const char* name : {"linger.ms", "queue.buffering.max.ms"}) {
    KafkaOptions options = options_;
    options.settings[name] = "900000";
    const auto writer = OpenKafkaWriter(options);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    const std::vector<std::string_view> records = {"a"};
    ASSERT_TRUE((*writer)->Start(0, records).ok());
    EXPECT_EQ((*writer)->Finish(std::chrono::milliseconds(300)).code(), Code::kUnavailable) << name;
  }
}

TEST_F(KafkaSourceTest, DeadLettersSayWhereTheyWereAndWhy) {
  MakeTopic("dead", 1);
  KafkaOptions to = options_;
  to.topic = "dead";
  to.settings["message.max.bytes"] = "20000";
  const auto sink = OpenKafkaDeadLetters(to, kTopic);
  ASSERT_TRUE(sink.ok()) << sink.status().ToString();
  const std::string large(30'000, 'x');
  RecordBatch batch = BatchOf({"good", "bad", large}, 40);
  batch.partition = 1;
  batch.wanted = {{Attribute::Kind::kHeader, "shop"}, {Attribute::Kind::kKey, ""}};
  batch.attributes.resize(2);
  batch.attributes[1].FillTo(1);
  batch.attributes[1].Append(AsBytes("k1"));
  const std::vector<DecodedRows::DeadLetter> dead = {{41, "no number", "bad", "", ""},
                                                     {42, "too long", large.substr(0, 1024), "", ""}};
  for (int i = 0; i < 2; ++i) {
    const Status kept = (*sink)->Keep(batch, dead);
    ASSERT_TRUE(kept.ok()) << kept.ToString();
  }
  RecordBatch out;
  out.wanted = {{Attribute::Kind::kKey, ""}};
  for (const char* name : {"leat.topic", "leat.partition", "leat.offset", "leat.reason"})
    out.wanted.push_back({Attribute::Kind::kHeader, name});
  options_.topic = "dead";
  ASSERT_TRUE(Open()->Read(0, 0, 4, &out).ok());
  EXPECT_THAT(TextsOf(out), ElementsAre("bad", large.substr(0, 1024), "bad", large.substr(0, 1024)));
  std::vector<std::string> attributes;
  for (size_t i = 0; i < 2; ++i) {
    for (size_t a = 0; a < out.wanted.size(); ++a)
      attributes.push_back(out.Value(a, i) ? std::string(AsText(*out.Value(a, i))) : "none");
  }
  EXPECT_THAT(attributes,
              ElementsAre("k1", kTopic, "1", "41", "no number", "none", kTopic, "1", "42", "too long"));
}

TEST_F(KafkaSourceTest, DeadLettersThatNobodyTakesAreNoSuccess) {
  options_.settings["bootstrap.servers"] = "127.0.0.1:1";
  options_.timeout = std::chrono::milliseconds(300);
  const auto sink = OpenKafkaDeadLetters(options_, "from");
  ASSERT_TRUE(sink.ok()) << sink.status().ToString();
  const std::vector<DecodedRows::DeadLetter> dead = {{0, "no number", "bad", "", ""}};
  const Status kept = (*sink)->Keep(BatchOf({"bad"}), dead);
  EXPECT_EQ(kept.code(), Code::kUnavailable);
  EXPECT_THAT(kept.message(),
              HasSubstr("dead letters to Kafka topic 'payments': 1 records are not acknowledged"));
}

TEST_F(KafkaSourceTest, RecordsAreSentWithoutWaiting) {
  std::vector<std::string> numbers;
  std::vector<TopicRecord> records;
  for (int i = 0; i < 150'000; ++i) numbers.push_back(std::to_string(i));  // more than librdkafka's queue has
  for (const std::string& number : numbers) records.push_back({.value = number});
  ASSERT_TRUE(writer_->Send(0, records).ok());
  const std::vector<TopicRecord> keyed = {
      {.value = "a", .key = "k"}, {.value = "b"}, {.value = "", .key = ""}};
  ASSERT_TRUE(writer_->Send(1, keyed).ok());
  EXPECT_GE(writer_->waiting(), 3u);
  ASSERT_TRUE(writer_->Flush().ok());
  EXPECT_EQ(writer_->waiting(), 0u);
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  ExpectNumbers(*source, 0, 150'000);
  RecordBatch batch;
  batch.wanted = {{Attribute::Kind::kKey, ""}};
  ASSERT_TRUE(source->Read(1, 0, 3, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "b", ""));
  EXPECT_EQ(AsText(batch.Value(0, 0).value()), "k");
  EXPECT_EQ(batch.Value(0, 1), std::nullopt);
  EXPECT_EQ(AsText(batch.Value(0, 2).value()), "");
}

TEST_F(KafkaSourceTest, RecordsThatAreNotAcknowledgedAreCounted) {
  options_.timeout = std::chrono::milliseconds(500);
  auto writer = OpenKafkaWriter(options_);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  const std::vector<TopicRecord> records(10, {.value = "x"});
  ASSERT_TRUE((*writer)->Send(0, records).ok());
  ASSERT_TRUE((*writer)->Flush().ok());
  rd_kafka_mock_broker_set_down(cluster(), 1);
  ASSERT_TRUE((*writer)->Send(0, records).ok());
  const Status flushed = (*writer)->Flush();
  EXPECT_EQ(flushed.code(), Code::kUnavailable);
  EXPECT_THAT(flushed.message(), HasSubstr("10 records are not acknowledged"));
  EXPECT_EQ((*writer)->waiting(), 10u);
  rd_kafka_mock_broker_set_up(cluster(), 1);
}

TEST_F(KafkaSourceTest, ARecordThatIsTooLargeIsNamed) {
  const std::string large(2'000'000, 'x');
  const std::vector<TopicRecord> records = {{.value = "small"}, {.value = large}};
  const Status sent = writer_->Send(0, records);
  EXPECT_EQ(sent.code(), Code::kInvalidArgument);
  EXPECT_THAT(sent.message(), HasSubstr("a record of 2000000 bytes is too large (message.max.bytes)"));
}

TEST_F(KafkaSourceTest, RecordsThatDoNotExistYetAreNamed) {
  Publish(0, {"a", "b"});
  options_.timeout = std::chrono::seconds(1);
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  RecordBatch batch;
  const Status read = source->Read(0, 1, 5, &batch);
  EXPECT_EQ(read.code(), Code::kUnavailable);
  EXPECT_EQ(read.message(), "Kafka topic 'payments' partition 0: no record of [2, 5) came within 1 s");
  ASSERT_TRUE(source->Read(0, 1, 2, &batch).ok()) << "the next read is as good as new";
  EXPECT_THAT(TextsOf(batch), ElementsAre("b"));
}

TEST_F(KafkaSourceTest, AnOffsetBeyondTheEndIsNotTheLastRecord) {
  Publish(0, {"a", "b"});
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  RecordBatch batch;
  const Status read = source->Read(0, 10, 12, &batch);
  EXPECT_EQ(read.code(), Code::kFailedPrecondition);
  EXPECT_THAT(read.message(), HasSubstr("some of [10, 12) do not exist; it has [0, 2)"));
}

TEST_F(KafkaSourceTest, ABrokerThatRefusesIsNamedWithinTheTimeout) {
  options_.settings["bootstrap.servers"] = "127.0.0.1:1";
  options_.timeout = std::chrono::milliseconds(300);
  const auto source = OpenKafka(options_);
  EXPECT_EQ(source.status().code(), Code::kUnavailable);
  EXPECT_THAT(source.status().message(),
              AllOf(HasSubstr("'payments' at 127.0.0.1:1: "), HasSubstr("Connection refused")));
}

TEST(KafkaSettings, WhatLeatReliesOnIsRefused) {
  for (const char* name : {"isolation.level", "group.id", "enable.auto.commit", "enable.auto.offset.store",
                           "auto.offset.reset", "enable.partition.eof"}) {
    const Status refused = CheckKafkaSetting(name, "true");
    EXPECT_EQ(refused.code(), Code::kInvalidArgument) << name;
    EXPECT_THAT(refused.message(), HasSubstr(std::string("'") + name + "' is set by Leat"));
  }
  EXPECT_TRUE(CheckKafkaSetting("security.protocol", "SASL_SSL").ok());
  EXPECT_TRUE(CheckKafkaSetting("fetch.min.bytes", "1000").ok());
  EXPECT_EQ(CheckKafkaSetting("fetch.min.byte", "1").message(), "librdkafka has no setting 'fetch.min.byte'");
  EXPECT_THAT(CheckKafkaSetting("fetch.min.bytes", "many").message(), HasSubstr("fetch.min.bytes"));
}

TEST(KafkaSettings, AnInvalidSecretIsNotRepeated) {
  const Status refused = CheckKafkaSetting("ssl_key", "open sesame");
  EXPECT_EQ(refused.message().find("sesame"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace leat::stream
