// Against the broker that librdkafka has for tests, whose consumers also see what is not committed. A system
// test has a real one.
#include "stream/kafka/kafka_transactions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <librdkafka/rdkafka_mock.h>

#include <string>
#include <vector>

#include "stream/kafka/kafka_source.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ClusterDeleter {
  void operator()(rd_kafka_mock_cluster_t* cluster) const { rd_kafka_mock_cluster_destroy(cluster); }
};

class KafkaTransactionsTest : public ::testing::Test {
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
    rd_kafka_mock_topic_create(cluster_.get(), "scores", 1, 1);
    rd_kafka_mock_topic_create(cluster_.get(), "payments", 2, 1);
    options_ = {
        .kafka = {.topic = "scores",
                  .settings = {{"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster_.get())}}},
        .id = "job/1",
        .group = "job-predictions",
        .topic = "payments",
        .partition = 1};
  }
  void TearDown() override {
    cluster_.reset();
  }

  KafkaClient owner_;
  std::unique_ptr<rd_kafka_mock_cluster_t, ClusterDeleter> cluster_;
  KafkaTransactionOptions options_;
};

TEST_F(KafkaTransactionsTest, TheNoteComesWithTheRecords) {
  auto first = KafkaTransactions::Open(options_);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_EQ((*first)->committed(), std::nullopt);
  const std::vector<KafkaTransactions::Record> records = {{"k1", "one"}, {std::nullopt, "two"}};
  const Status written = (*first)->Write(records, 70);
  ASSERT_TRUE(written.ok()) << written.ToString();
  EXPECT_EQ((*first)->committed(), 70u);
  ASSERT_TRUE((*first)->Write({}, 90).ok()) << "a split of dead letters";

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
  const auto opened = KafkaTransactions::Open(options_);
  EXPECT_EQ(opened.status().code(), Code::kUnavailable);
  EXPECT_THAT(opened.status().message(), HasSubstr("'scores', partition 1 of 'payments'"));
}

}  // namespace
}  // namespace leat::stream
