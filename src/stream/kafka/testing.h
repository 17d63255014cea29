// The broker that librdkafka has for tests, in this process.
#pragma once

#include <gtest/gtest.h>
#include <librdkafka/rdkafka.h>
// It needs the header before it.
#include <librdkafka/rdkafka_mock.h>

#include <memory>
#include <utility>

#include "base/testing.h"
#include "stream/kafka/kafka_client.h"

namespace leat::stream {

// Its tests are skipped under ThreadSanitizer. A derived SetUp begins with this one, and ends if cluster() is
// null.
class MockClusterTest : public ::testing::Test {
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
  }
  void TearDown() override {
    cluster_.reset();
  }

  rd_kafka_mock_cluster_t* cluster() {
    return cluster_.get();
  }
  void MakeTopic(const char* name, int partitions) {
    rd_kafka_mock_topic_create(cluster_.get(), name, partitions, 1);
  }
  // The options with which a client reaches a topic of this broker.
  KafkaOptions OptionsOf(const char* topic) {
    return {.topic = topic,
            .settings = {{"bootstrap.servers", rd_kafka_mock_cluster_bootstraps(cluster_.get())}}};
  }

 private:
  struct Deleter {
    void operator()(rd_kafka_mock_cluster_t* cluster) const { rd_kafka_mock_cluster_destroy(cluster); }
  };
  KafkaClient owner_;
  std::unique_ptr<rd_kafka_mock_cluster_t, Deleter> cluster_;
};

}  // namespace leat::stream
