#include "stream/kafka/kafka_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace leat::stream {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Settings = std::map<std::string, std::string>;

uint64_t Number(const Settings& settings, const char* name) {
  return std::stoull(settings.at(name));
}

TEST(KafkaPrefetch, PartitionsDivideTheBudget) {
  constexpr uint64_t kBudget = uint64_t{256} << 20;
  for (const size_t partitions : {1, 4, 64, 200}) {
    Settings settings;
    DividePrefetch(kBudget, partitions, &settings);
    const uint64_t reply = Number(settings, "fetch.message.max.bytes");
    // A reply comes to a queue that is not quite full.
    for (const uint64_t record : {100, 1000, 50'000}) {
      const uint64_t full = std::min(Number(settings, "queued.max.messages.kbytes") * 1024 / record + 1,
                                     Number(settings, "queued.min.messages"));
      EXPECT_LE(partitions * (full + reply / record) * (record + kKafkaMessageBytes), kBudget)
          << partitions << " partitions with records of " << record << " bytes";
    }
  }
}

TEST(KafkaPrefetch, SettingsOfTheJobStay) {
  Settings settings = {{"queued.min.messages", "7"}, {"max.partition.fetch.bytes", "8"}};
  DividePrefetch(1 << 20, 2, &settings);
  EXPECT_EQ(settings.at("queued.min.messages"), "7");
  EXPECT_EQ(settings.at("max.partition.fetch.bytes"), "8");
  EXPECT_FALSE(settings.contains("fetch.message.max.bytes"));
  EXPECT_EQ(settings.at("queued.max.messages.kbytes"), "96");
  DividePrefetch(0, 0, &(settings = {}));
  EXPECT_EQ(settings.at("queued.min.messages"), "1");
}

TEST(KafkaPrefetch, WhatIsReadLeastIsLetGo) {
  const auto at = [](int seconds) { return Time(std::chrono::seconds(seconds)); };
  const std::vector<PrefetchedPartition> all = {{0, 40, at(7)}, {1, 30, at(9)}, {2, 30, at(8)}};
  EXPECT_THAT(FindUnneeded(all, 100, at(9)), IsEmpty());
  EXPECT_THAT(FindUnneeded(all, 99, at(9)), ElementsAre(0));
  EXPECT_THAT(FindUnneeded(all, 59, at(9)), ElementsAre(2, 0));
  EXPECT_THAT(FindUnneeded(all, 0, at(9)), ElementsAre(2, 0)) << "the last one read stays";
  EXPECT_THAT(FindUnneeded(all, 100, at(8) + kPrefetchIdle), ElementsAre(0));
  EXPECT_THAT(FindUnneeded({}, 100, at(9)), IsEmpty());
}

}  // namespace
}  // namespace leat::stream
