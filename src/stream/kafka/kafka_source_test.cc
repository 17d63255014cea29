// Against the broker that librdkafka has for tests. It knows no transactions; a system test has a real one.
#include "stream/kafka/kafka_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka_mock.h>

#include "stream/kafka/kafka_writer.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kTopic = "payments";

struct ClusterDeleter {
  void operator()(rd_kafka_mock_cluster_t* cluster) const { rd_kafka_mock_cluster_destroy(cluster); }
};

class KafkaSourceTest : public ::testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << AllowedSkip("thrd");
#endif
    auto made = KafkaClient::Make(RD_KAFKA_PRODUCER, {}, {});
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    owner_ = std::move(*made);
    cluster_.reset(rd_kafka_mock_cluster_new(owner_.get(), 1));
    ASSERT_NE(cluster_, nullptr);
    rd_kafka_mock_topic_create(cluster_.get(), kTopic, 2, 1);
    options_ = {.topic = kTopic,
                .settings = {{"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster_.get())}}};
    auto writer = OpenKafkaWriter(options_);
    ASSERT_TRUE(writer.ok()) << writer.status().ToString();
    writer_ = std::move(*writer);
  }
  void TearDown() override {
    writer_.reset();
    cluster_.reset();
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
  std::unique_ptr<Source> Open() {
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

  KafkaClient owner_;
  std::unique_ptr<rd_kafka_mock_cluster_t, ClusterDeleter> cluster_;
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

TEST_F(KafkaSourceTest, ANewPartitionMayHaveNoLeaderYet) {
  Publish(0, {"a"});
  const auto source = Open();
  ASSERT_NE(source, nullptr);
  constexpr int16_t kListOffsets = 2;
  rd_kafka_mock_push_request_errors(cluster_.get(), kListOffsets, 2,
                                    RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                    RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION);
  const auto ranges = source->Ranges();
  ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
  EXPECT_THAT(*ranges, ElementsAre(PartitionRange{0, 0, 1, false}, PartitionRange{1, 0, 0, false}));
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

// The key of a record, as librdkafka itself reads it.
std::string KeyAt(const KafkaOptions& options, int32_t partition, int64_t offset) {
  auto client = KafkaClient::Make(RD_KAFKA_CONSUMER, options, {});
  const KafkaPtr<rd_kafka_topic_t> topic(rd_kafka_topic_new(client->get(), kTopic, nullptr));
  rd_kafka_consume_start(topic.get(), partition, offset);
  std::string key = "nothing";
  if (const KafkaPtr<rd_kafka_message_t> message(rd_kafka_consume(topic.get(), partition, 10'000)); message)
    key = message->key == nullptr ? "none" : std::string(static_cast<char*>(message->key), message->key_len);
  rd_kafka_consume_stop(topic.get(), partition);
  return key;
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
  ASSERT_TRUE(source->Read(1, 0, 3, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("a", "b", ""));
  EXPECT_EQ(KeyAt(options_, 1, 0), "k");
  EXPECT_EQ(KeyAt(options_, 1, 1), "none");
  EXPECT_EQ(KeyAt(options_, 1, 2), "");
}

TEST_F(KafkaSourceTest, RecordsThatAreNotAcknowledgedAreCounted) {
  options_.timeout = std::chrono::milliseconds(500);
  auto writer = OpenKafkaWriter(options_);
  ASSERT_TRUE(writer.ok()) << writer.status().ToString();
  const std::vector<TopicRecord> records(10, {.value = "x"});
  ASSERT_TRUE((*writer)->Send(0, records).ok());
  ASSERT_TRUE((*writer)->Flush().ok());
  rd_kafka_mock_broker_set_down(cluster_.get(), 1);
  ASSERT_TRUE((*writer)->Send(0, records).ok());
  const Status flushed = (*writer)->Flush();
  EXPECT_EQ(flushed.code(), Code::kUnavailable);
  EXPECT_THAT(flushed.message(), HasSubstr("10 records are not acknowledged"));
  EXPECT_EQ((*writer)->waiting(), 10u);
  rd_kafka_mock_broker_set_up(cluster_.get(), 1);
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
