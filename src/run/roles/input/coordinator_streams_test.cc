#include "run/roles/input/coordinator_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace leat::roles {
namespace {

using protocol::Fingerprint;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Knows the hashes of some records.
class HashedSource final : public stream::Source {
 public:
  Result<std::vector<stream::PartitionRange>> Ranges() override {
    return std::vector<stream::PartitionRange>();
  }
  Status Read(uint32_t, uint64_t, uint64_t, stream::RecordBatch*) override { return {}; }
  Result<uint64_t> Fingerprint(uint32_t partition, uint64_t offset) override {
    if (blocked != nullptr) {
      ++asked;
      blocked->wait();
    }
    if (failing) return Status(Code::kUnavailable, "no broker");
    const auto found = hashes.find({partition, offset});
    return found == hashes.end() ? uint64_t{0} : found->second;
  }
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> hashes;
  bool failing = false;
  std::shared_ptr<std::latch> blocked;  // Fingerprint waits for it
  std::atomic<int> asked = 0;           // while that was so
};

TEST(Fingerprints, FollowTheWatermarkAndStayWhereNoneIsKnown) {
  HashedSource source;
  source.hashes = {{{0, 10}, 7}, {{0, 20}, 8}, {{1, 5}, 9}};
  auto taken = TakeFingerprints(source, std::vector<protocol::Position>{{0, 10}, {0, 0}}, {});
  ASSERT_TRUE(taken.ok());
  EXPECT_THAT(*taken, ElementsAre(Fingerprint{10, 7}, Fingerprint{0, 0}));
  taken = TakeFingerprints(source, std::vector<protocol::Position>{{0, 20}, {0, 5}}, *taken);
  ASSERT_TRUE(taken.ok());
  EXPECT_THAT(*taken, ElementsAre(Fingerprint{20, 8}, Fingerprint{5, 9}));
  taken = TakeFingerprints(source, std::vector<protocol::Position>{{0, 30}, {0, 5}, {0, 1}}, *taken);
  ASSERT_TRUE(taken.ok());
  EXPECT_THAT(*taken, ElementsAre(Fingerprint{20, 8}, Fingerprint{5, 9}, Fingerprint{0, 0}));
}

TEST(Fingerprints, AnotherRecordAtTheSameOffsetIsDataLoss) {
  HashedSource source;
  source.hashes = {{{1, 20}, 8}, {{1, 30}, 9}};
  const std::vector<Fingerprint> taken = {{0, 0}, {20, 7}};
  const Status checked = CheckFingerprints(source, taken);
  EXPECT_EQ(checked.code(), Code::kDataLoss);
  EXPECT_THAT(checked.message(), HasSubstr("partition 1 has another record before offset 20"));
  EXPECT_EQ(TakeFingerprints(source, std::vector<protocol::Position>{{0, 0}, {0, 30}}, taken).status(),
            checked);
  source.hashes.clear();
  EXPECT_TRUE(CheckFingerprints(source, taken).ok()) << "retention has removed it";
  source.failing = true;
  EXPECT_EQ(CheckFingerprints(source, taken).code(), Code::kUnavailable);
}

TEST(Fingerprints, NobodyWaitsForThemAndTheyDoNotQueueUp) {
  constexpr int kPartitions = 1000;
  auto owned = std::make_unique<HashedSource>();
  HashedSource& source = *owned;
  for (uint32_t p = 0; p < kPartitions; ++p) source.hashes[{p, 1}] = p + 1;
  source.blocked = std::make_shared<std::latch>(1);
  CoordinatorStreams streams;
  streams.fingerprints = std::move(owned);
  streams.remote = true;
  net::Loop loop;
  LoopWork work(loop);
  BackgroundThread others;
  StreamWatch watch(work, others, streams, {.name = "topic"});
  const std::vector<protocol::Position> watermark(kPartitions, {0, 1});
  for (int i = 0; i < 100; ++i) watch.TakeFingerprints(watermark);
  EXPECT_LE(source.asked, 1);
  source.blocked->count_down();
  while (watch.fingerprints().empty()) loop.RunOnce(std::chrono::seconds(1));
  EXPECT_EQ(watch.fingerprints().back(), (Fingerprint{1, kPartitions}));
  EXPECT_EQ(source.asked, kPartitions) << "taken while another is";
  watch.TakeFingerprints(watermark);
  while (source.asked < 2 * kPartitions) loop.RunOnce(std::chrono::milliseconds(1));
}

}  // namespace
}  // namespace leat::roles
