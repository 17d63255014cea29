#include "stream/publish/publish.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/testing.h"
#include "stream/source.h"
#include "stream/testing.h"

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAreArray;

// Keeps the records. Sent records are on their way until Flush.
class FakeWriter final : public TopicWriter {
 public:
  explicit FakeWriter(uint32_t partitions) : topic(partitions), keys(partitions) {}
  Result<uint64_t> Append(uint32_t, std::span<const std::string_view>) override {
    return Status(Code::kInternal, "records are sent");
  }
  Status Send(uint32_t partition, std::span<const TopicRecord> records) override {
    if (sent + records.size() > most) return {Code::kUnavailable, "the broker is gone"};
    for (const TopicRecord& record : records) {
      topic[partition].emplace_back(record.value);
      keys[partition].emplace_back(record.key.data() == nullptr ? "none" : record.key);
    }
    sent += records.size();
    largest = std::max(largest, records.size());
    return {};
  }
  Status Flush() override {
    flushed = sent;
    return {};
  }
  uint64_t waiting() const override { return sent - flushed; }
  Status Seal() override { return {Code::kInternal, "other files may follow"}; }
  uint32_t partitions() const override { return static_cast<uint32_t>(topic.size()); }

  std::vector<std::vector<std::string>> topic, keys;
  uint64_t sent = 0, flushed = 0, most = UINT64_MAX;
  size_t largest = 0;  // number of records sent at a time
};

std::vector<std::string> Numbers(int count) {
  std::vector<std::string> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

class PublishTest : public ::testing::Test {
 protected:
  // Publishes the records; the clock stands still unless it is waited for.
  Status Run(const std::vector<std::string>& records, FakeWriter& writer, const PublishOptions& options) {
    const auto source = MakeMemorySource(records, 1);
    return Publish(*source, writer, options,
                   {.clock = clock_,
                    .wait =
                        [this](Duration time) {
                          clock_.Advance(time);
                          ++waits_;
                        },
                    .stopped = [&] { return writer.sent >= stop_at_; },
                    .progress = [this](const Published& now) { shown_.push_back(now.records); }},
                   &done_);
  }

  ManualClock clock_;
  Published done_;
  uint64_t stop_at_ = UINT64_MAX;
  int waits_ = 0;
  std::vector<uint64_t> shown_;
};

TEST_F(PublishTest, RoundRobinInTheOrderOfTheFile) {
  FakeWriter writer(3);
  ASSERT_TRUE(Run({"a", "b", "", "dd", "e"}, writer, {}).ok());
  EXPECT_THAT(writer.topic, ElementsAre(ElementsAre("a", "dd"), ElementsAre("b", "e"), ElementsAre("")));
  EXPECT_THAT(writer.keys[0], ElementsAre("none", "none"));
  EXPECT_EQ(done_.records, 5u);
  EXPECT_EQ(done_.bytes, 5u);
  EXPECT_EQ(waits_, 0);
}

TEST_F(PublishTest, EveryRecordOfManyTurns) {
  constexpr int kRecords = 200'000;
  FakeWriter writer(2);
  ASSERT_TRUE(Run(Numbers(kRecords), writer, {}).ok());
  for (int i = 0; i < kRecords; ++i)
    ASSERT_EQ(writer.topic[static_cast<size_t>(i % 2)][static_cast<size_t>(i / 2)], std::to_string(i));
  EXPECT_GT(shown_.size(), 5u);
  EXPECT_EQ(done_.records, static_cast<uint64_t>(kRecords));
}

TEST_F(PublishTest, LargeRecordsGoFewAtATime) {
  FakeWriter writer(1);
  ASSERT_TRUE(Run(std::vector<std::string>(600, std::string(100'000, 'x')), writer, {}).ok());
  EXPECT_EQ(writer.topic[0].size(), 600u);
  EXPECT_EQ(writer.largest, 256u) << "the first turn; later ones have 4 MiB";
  EXPECT_GT(shown_.size(), 8u);
}

TEST_F(PublishTest, ShuffledRecordsAreTheSameRecords) {
  const auto records = Numbers(1000);
  FakeWriter one(2), same(2), other(2);
  ASSERT_TRUE(Run(records, one, {.shuffle = 1}).ok());
  ASSERT_TRUE(Run(records, same, {.shuffle = 1}).ok());
  ASSERT_TRUE(Run(records, other, {.shuffle = 2}).ok());
  EXPECT_EQ(one.topic, same.topic);
  EXPECT_NE(one.topic, other.topic);
  std::vector<std::string> all = one.topic[0];
  EXPECT_FALSE(std::ranges::is_sorted(all, {}, [](const std::string& n) { return std::stoi(n); }));
  all.insert(all.end(), one.topic[1].begin(), one.topic[1].end());
  EXPECT_THAT(all, UnorderedElementsAreArray(records));
}

TEST_F(PublishTest, APartitionByKey) {
  const auto key = MakeJsonKeyReader("id");
  FakeWriter writer(8);
  std::vector<std::string> records;
  for (int i = 0; i < 400; ++i) records.push_back("{\"id\": \"k" + std::to_string(i % 20) + "\"}");
  records.emplace_back("{}");
  ASSERT_TRUE(Run(records, writer, {.key = key}).ok());
  std::map<std::string, size_t> partition_of;
  size_t used = 0, none = 0;
  for (size_t p = 0; p < 8; ++p) {
    used += !writer.keys[p].empty();
    for (size_t i = 0; i < writer.keys[p].size(); ++i) {
      const std::string& name = writer.keys[p][i];
      if (name == "none") {
        ++none;
        continue;
      }
      EXPECT_EQ(writer.topic[p][i], "{\"id\": \"" + name + "\"}");
      EXPECT_EQ(partition_of.emplace(name, p).first->second, p) << name;
      EXPECT_EQ(PartitionOfKey(name, 8), p);
    }
  }
  EXPECT_GT(used, 4u);
  EXPECT_EQ(none, 1u);
  EXPECT_EQ(partition_of.size(), 20u);
  EXPECT_EQ(done_.without_key, 1u);
}

TEST_F(PublishTest, NoFasterThanTheRate) {
  FakeWriter writer(1);
  ASSERT_TRUE(Run(Numbers(5000), writer, {.rate = 1000}).ok());
  EXPECT_GE(clock_.Now(), std::chrono::seconds(5));
  EXPECT_LT(clock_.Now(), std::chrono::milliseconds(5100));
  EXPECT_LE(writer.largest, 11u) << "spread over the time";
  clock_ = ManualClock();
  waits_ = 0;
  FakeWriter slow(1);
  ASSERT_TRUE(Run(Numbers(3), slow, {.rate = 0.5}).ok());
  EXPECT_GE(clock_.Now(), std::chrono::seconds(6));
  EXPECT_LT(waits_, 10) << "it sleeps until a record is due";
}

TEST_F(PublishTest, StopsBetweenTurns) {
  FakeWriter writer(2);
  stop_at_ = 1000;
  ASSERT_TRUE(Run(Numbers(100'000), writer, {}).ok());
  EXPECT_LT(writer.sent, 100'000u);
  EXPECT_EQ(writer.flushed, writer.sent) << "what was sent is there";
  EXPECT_EQ(done_.records, writer.sent);
}

TEST_F(PublishTest, AnErrorSaysHowManyAreThere) {
  FakeWriter writer(1);
  writer.most = 3000;
  const Status status = Run(Numbers(100'000), writer, {});
  EXPECT_EQ(status.message(), "the broker is gone");
  EXPECT_EQ(done_.records, 0u) << "none is known to be in the topic";
}

}  // namespace
}  // namespace leat::stream
