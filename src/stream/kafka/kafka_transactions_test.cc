// Tests with the broker that librdkafka has for them, whose consumers also see uncommitted records. A system
// test has a real one.
#include "stream/kafka/kafka_topic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stream/kafka/testing.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KafkaTransactionsTest : public MockClusterTest {
 protected:
  void SetUp() override {
    MockClusterTest::SetUp();
    if (cluster() == nullptr) return;
    MakeTopic("scores", 1);
    MakeTopic("payments", 2);
    options_ = {.kafka = OptionsOf("scores"), .id = "job-1", .group = "job-predictions", .topic = "payments"};
  }

  KafkaTransactionOptions options_;
};

TEST_F(KafkaTransactionsTest, TheNotesComeWithTheRecords) {
  auto first = OpenKafkaTransactions(options_);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  const auto none = (*first)->Committed({0, 1});
  ASSERT_TRUE(none.ok()) << none.status().ToString();
  EXPECT_THAT(*none, IsEmpty());
  const std::vector<TopicTransactions::Record> records = {{"k1", "one"}, {std::nullopt, "two"}};
  const Status written = (*first)->Write(records, {{0, 20}, {1, 70}});
  ASSERT_TRUE(written.ok()) << written.ToString();
  ASSERT_TRUE((*first)->Write({}, {{1, 90}}).ok()) << "a split of dead letters";

  const auto source = OpenKafka(options_.kafka);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  RecordBatch batch;
  batch.wanted = {{Attribute::Kind::kKey, ""}};
  ASSERT_TRUE((*source)->Read(0, 0, 2, &batch).ok());
  EXPECT_THAT(TextsOf(batch), ElementsAre("one", "two"));
  EXPECT_EQ(AsText(batch.Value(0, 0).value()), "k1");
  EXPECT_EQ(batch.Value(0, 1), std::nullopt);
}

TEST_F(KafkaTransactionsTest, ARefusedBrokerIsNamedWithinTheTimeout) {
  options_.kafka.settings["bootstrap.servers"] = "127.0.0.1:1";
  options_.kafka.timeout = std::chrono::milliseconds(500);
  const auto opened = OpenKafkaTransactions(options_);
  EXPECT_EQ(opened.status().code(), Code::kUnavailable);
  EXPECT_THAT(opened.status().message(), HasSubstr("Kafka topic 'scores'"));
}

}  // namespace
}  // namespace leat::stream
