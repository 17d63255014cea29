#include "storage/checkpoint/standby/standby_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "storage/checkpoint/store.h"
#include "storage/checkpoint/testing.h"

namespace leat::checkpoint {
namespace {

using protocol::IdsReserved;
using protocol::JournalRecord;
using protocol::MakeTerm;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint32_t kRunNumber = 77;

std::vector<JournalRecord> Records(uint64_t first, uint64_t end) {
  std::vector<JournalRecord> records;
  for (uint64_t id = first; id < end; ++id) records.push_back(IdsReserved{id, id});
  return records;
}

std::vector<uint64_t> CutIds(const std::vector<JournalRecord>& records) {
  std::vector<uint64_t> ids;
  for (const JournalRecord& record : records) ids.push_back(std::get<IdsReserved>(record).node);
  return ids;
}

std::unique_ptr<StandbyDirectory> Open(const std::string& path) {
  auto made = StandbyDirectory::Open(path);
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return made.ok() ? std::move(*made) : nullptr;
}

TEST(StandbyDirectory, IsThatOfACoordinatorOnceItTakesOver) {
  const TempDir dir;
  const std::string path = dir / "own";
  {
    const auto standby = Open(path);
    EXPECT_EQ(standby->term(), 0u);
    ASSERT_TRUE(standby->Begin(MakeTerm(kRunNumber, 1), "job: 1\n", Records(1, 3)).ok());
    ASSERT_TRUE(standby->Append(Records(3, 5)).ok());
    EXPECT_EQ(standby->term(), MakeTerm(kRunNumber, 1));
    EXPECT_FALSE(standby->founder());
    EXPECT_THAT(CutIds(*standby->Records()), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(StandbyDirectory::Open(path).status().message(), HasSubstr("in use"));
  }
  {
    auto store = Store::Open(path, true, false, 4);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    EXPECT_EQ((*store)->term(), MakeTerm(kRunNumber, 4));
    EXPECT_EQ(*(*store)->ReadJob(), "job: 1\n");
    EXPECT_THAT(CutIds((*store)->Restore()->journal), ElementsAre(1, 2, 3, 4));
    ASSERT_TRUE((*store)->AppendJournal(IdsReserved{5, 5}).ok());
    EXPECT_EQ(Store::Open(path, true, true, 4).status().code(), Code::kStale);
  }
  const auto again = Open(path);
  EXPECT_TRUE(again->founder());
  EXPECT_EQ(again->term(), MakeTerm(kRunNumber, 4));
  // Nothing of a lower term, or of its own, takes the journal's place.
  EXPECT_EQ(again->Begin(MakeTerm(kRunNumber, 3), "job: 1\n", {}).code(), Code::kStale);
  EXPECT_EQ(again->Begin(MakeTerm(kRunNumber, 4), "job: 1\n", {}).code(), Code::kStale);
  EXPECT_EQ(again->Begin(MakeTerm(kRunNumber + 1, 9), "job: 1\n", {}).code(), Code::kStale);
  EXPECT_THAT(CutIds(*again->Records()), ElementsAre(1, 2, 3, 4, 5));
  ASSERT_TRUE(again->Begin(MakeTerm(kRunNumber, 5), "job: 1\n", Records(7, 9)).ok());
  EXPECT_THAT(CutIds(*again->Records()), ElementsAre(7, 8));
  EXPECT_FALSE(std::filesystem::exists(path + "/term-000004"));
}

TEST(StandbyDirectory, AStreamThatBeginsAnewReplacesTheJournal) {
  const TempDir dir;
  uint64_t number = 0;
  {
    const auto standby = Open(dir.path());
    number = standby->coordinator();
    EXPECT_FALSE(standby->Append(Records(1, 2)).ok()) << "of which journal?";
    ASSERT_TRUE(standby->Begin(MakeTerm(kRunNumber, 2), "job: 1\n", Records(1, 3)).ok());
    ASSERT_TRUE(standby->Begin(MakeTerm(kRunNumber, 2), "job: 1\n", Records(2, 4)).ok());
    ASSERT_TRUE(standby->Append(Records(4, 5)).ok());
    EXPECT_THAT(CutIds(*standby->Records()), ElementsAre(2, 3, 4));
  }
  const auto again = Open(dir.path());
  EXPECT_EQ(again->coordinator(), number);
  EXPECT_THAT(CutIds(*again->Records()), ElementsAre(2, 3, 4));
  ASSERT_TRUE(again->Begin(MakeTerm(kRunNumber, 2), "job: 1\n", Records(8, 9)).ok());
  EXPECT_THAT(CutIds(*again->Records()), ElementsAre(8));
}

TEST(StandbyDirectory, ACheckpointIsThereOnceItsManifestIs) {
  const TempDir dir;
  const auto standby = Open(dir.path());
  ASSERT_TRUE(standby->Begin(MakeTerm(kRunNumber, 1), "job: 1\n", Records(1, 2)).ok());
  protocol::Manifest manifest;
  manifest.id = 7;
  manifest.directory = CheckpointName(7);
  manifest.watermark = {{0, 5}};
  auto path = standby->Prepare(7);
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  EXPECT_EQ(standby->newest_checkpoint(), 0u);
  path = standby->Prepare(7);
  ASSERT_TRUE(path.ok()) << "what was left is removed";
  EXPECT_EQ(StandbyDirectory::Verify(*path + "0", manifest).code(), Code::kDataLoss);
  ASSERT_TRUE(StandbyDirectory::Verify(*path, manifest).ok());
  manifest.shards.push_back({"shard-1.safetensors", 100, 5, {}});
  EXPECT_EQ(StandbyDirectory::Verify(*path, manifest).code(), Code::kDataLoss) << "a shard is missing";
  manifest.shards.clear();
  ASSERT_TRUE(standby->Complete(manifest).ok());
  EXPECT_EQ(standby->newest_checkpoint(), 7u);
  EXPECT_EQ(ReadNewest(dir.path())->id, 7u);
  ASSERT_TRUE(standby->Drop(8, {{0, 5}}).ok());
  EXPECT_TRUE(ReadNewest(dir.path()).ok()) << "it has no later one";
}

}  // namespace
}  // namespace leat::checkpoint
