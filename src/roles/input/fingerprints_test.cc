#include "roles/input/fingerprints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

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
    if (failing) return Status(Code::kUnavailable, "no broker");
    const auto found = hashes.find({partition, offset});
    return found == hashes.end() ? uint64_t{0} : found->second;
  }
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> hashes;
  bool failing = false;
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

}  // namespace
}  // namespace leat::roles
