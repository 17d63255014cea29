#include "stream/join/join_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/rng.h"
#include "stream/join/testing.h"

namespace leat::stream {
namespace {

using ::testing::HasSubstr;
using Place = std::function<uint32_t(uint64_t key, uint32_t partitions)>;

uint32_t ByHash(uint64_t key, uint32_t partitions) {
  return static_cast<uint32_t>(Mix(key) % partitions);
}
uint32_t ByOtherHash(uint64_t key, uint32_t partitions) {
  return static_cast<uint32_t>(Mix(key, 7) % partitions);
}

// A topic with a record of each key, at times from `from` on.
std::shared_ptr<MemoryTopic> TopicOf(uint64_t keys, uint32_t partitions, int64_t from, const Place& place) {
  auto topic = std::make_shared<MemoryTopic>();
  topic->partitions.resize(partitions);
  for (uint64_t key = 0; key < keys; ++key)
    topic->Append(place(key, partitions), {std::to_string(key), from + static_cast<int64_t>(key)});
  return topic;
}

Status Checked(std::shared_ptr<MemoryTopic> events, std::shared_ptr<MemoryTopic> labels,
               int64_t window_ms = 1'000'000) {
  MemoryTimedSource all_events(std::move(events)), all_labels(std::move(labels));
  return CheckCopartitioned(all_events, "topic 'e'", all_labels, "topic 'l'", window_ms);
}

TEST(Copartitioned, TopicsThatAreDividedAlike) {
  const Status good = Checked(TopicOf(5000, 8, 0, ByHash), TopicOf(4000, 8, 500, ByHash));
  EXPECT_TRUE(good.ok()) << good.ToString();
  EXPECT_TRUE(Checked(TopicOf(0, 3, 0, ByHash), TopicOf(0, 3, 0, ByHash)).ok()) << "there is nothing yet";
  EXPECT_TRUE(Checked(TopicOf(500, 3, 0, ByHash), TopicOf(0, 3, 0, ByHash)).ok());
  EXPECT_TRUE(Checked(TopicOf(0, 3, 0, ByHash), TopicOf(500, 3, 0, ByHash)).ok());
}

TEST(Copartitioned, TheNumbersOfPartitionsDiffer) {
  EXPECT_EQ(Checked(TopicOf(10, 3, 0, ByHash), TopicOf(10, 4, 0, ByHash)),
            Status(Code::kInvalidArgument,
                   "topic 'e' has 3 partitions and topic 'l' 4; labels are joined "
                   "within partitions of the same number"));
}

TEST(Copartitioned, KeysAreInOtherPartitions) {
  for (const uint32_t partitions : {2, 5, 40}) {
    const Status status =
        Checked(TopicOf(3000, partitions, 0, ByHash), TopicOf(3000, partitions, 9, ByOtherHash));
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << partitions;
    EXPECT_THAT(status.message(),
                HasSubstr("topic 'e' and topic 'l' are not partitioned alike: a key is in"));
  }
}

// The events of the last labels are far before the last events.
TEST(Copartitioned, EventsAreLookedForInTheWindowBeforeTheLabels) {
  const auto events = TopicOf(100'000, 4, 0, ByHash);
  const auto labels = TopicOf(2000, 4, 10'000, ByOtherHash);
  EXPECT_FALSE(Checked(events, labels, 10'000).ok());
  EXPECT_TRUE(Checked(events, TopicOf(2000, 4, 10'000, ByHash), 10'000).ok());
}

TEST(Copartitioned, SomeKeysMayHaveMoved) {
  const Place moved = [](uint64_t key, uint32_t partitions) {
    return key % 20 == 0 ? ByOtherHash(key, partitions) : ByHash(key, partitions);
  };
  EXPECT_TRUE(Checked(TopicOf(1000, 4, 0, ByHash), TopicOf(1000, 4, 0, moved)).ok());
}

TEST(Copartitioned, ATopicThatCannotBeReadIsAnError) {
  const auto labels = TopicOf(10, 3, 0, ByHash);
  labels->fails_after = 0;
  EXPECT_EQ(Checked(TopicOf(10, 3, 0, ByHash), labels).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace leat::stream
