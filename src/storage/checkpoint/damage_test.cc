// Damaged checkpoints: every flipped bit and every truncation is noticed before anything is restored, and the
// checkpoint before takes the place of the damaged one, which is kept aside.
#include <gmock/gmock.h>

#include <map>
#include <set>

#include "storage/checkpoint/file.h"
#include "storage/checkpoint/manifest.h"
#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/store.h"
#include "storage/checkpoint/testing.h"

namespace leat::checkpoint {
namespace {

using protocol::IdsReserved;
using protocol::Manifest;
using protocol::Position;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kDamagedSlots[] = {"velocity"};

class DamageTest : public ::testing::Test {
 protected:
  DamageTest() {
    store_ = std::move(*Store::Open(directory_.path(), false));
    EXPECT_TRUE(store_->WriteJob("a: 1\n").ok());
    EXPECT_TRUE(store_->AppendJournal(IdsReserved{1, 1}).ok());
    for (uint64_t id = 1; id <= 2; ++id) EXPECT_TRUE(WriteCheckpoint(id).ok());
  }

  // On two servers; its content depends on the id alone.
  Result<Manifest> WriteCheckpoint(uint64_t id) {
    LEAT_ASSIGN_OR_RETURN(const auto order, store_->Prepare(id, 0));
    Manifest manifest;
    manifest.id = id;
    manifest.directory = std::filesystem::path(order.directory).filename();
    manifest.watermark = {{0, 64 * id}, {1, 7}};
    manifest.open = {MakeCut(0, 64 * id, 64 * id + 64)};
    for (const auto& [node, ids] : {std::pair{5, std::vector<uint32_t>{0, 3}}, {7, {1, 2, 4}}}) {
      LEAT_ASSIGN_OR_RETURN(auto shard, WriteShard(order.directory, static_cast<uint64_t>(node), table_,
                                                   kDamagedSlots, MakeSlices(table_, ids, 1, id)));
      manifest.shards.push_back(std::move(shard));
    }
    LEAT_RETURN_IF_ERROR(store_->Commit(manifest));
    return manifest;
  }
  std::string PathOf(uint64_t id, const std::string& file) const {
    return directory_ / ("checkpoint-00000" + std::to_string(id)) + "/" + file;
  }

  // Checkpoint 1 takes the place of checkpoint 2, whose file at `path` is damaged.
  void ExpectDamage(const std::string& path, const std::string& what) const {
    const auto found = ReadIntact(directory_.path());
    ASSERT_TRUE(found.ok()) << what << ": " << found.status().ToString();
    ASSERT_TRUE(found->manifest) << what;
    ASSERT_EQ(found->manifest->id, 1u) << what << " was not noticed";
    ASSERT_EQ(found->damaged.size(), 1u) << what;
    EXPECT_EQ(found->damaged[0].id, 2u) << what;
    ASSERT_THAT(found->damaged[0].why.message(), StartsWith(path + ": ")) << what;
  }
  // A server, which reads the slices that it is told, gets the numbers that were written or an error.
  void ExpectNoOtherNumbers(const std::string& path, const protocol::ManifestShard& shard,
                            const std::string& what) const {
    const auto reader = ShardReader::Open(path, shard.checksum);
    if (!reader.ok()) {
      ASSERT_EQ(reader.status().code(), Code::kDataLoss) << what;
      return;
    }
    for (const auto& [slice, incarnation] : shard.slices) {
      const auto read = (*reader)->Read(table_, slice, 1);
      if (read.ok()) {
        ExpectSame(*read, *MakeSlice(table_, slice.value, 1, 2));
      } else {
        ASSERT_EQ(read.status().code(), Code::kDataLoss) << what;
      }
    }
  }

  void FlipEveryBit(const std::string& file) {
    const std::string path = PathOf(2, file);
    const uint64_t size = std::filesystem::file_size(path);
    const auto manifest = *ReadNewest(directory_.path());
    const auto shard = std::ranges::find(manifest.shards, file, &protocol::ManifestShard::file);
    for (uint64_t at = 0; at < size; at += kEachByte) {
      for (int bit = 0; bit < 8; ++bit) {
        const std::string what = file + " bit " + std::to_string(bit) + " of byte " + std::to_string(at);
        FlipByte(path, at, static_cast<char>(1 << bit));
        ExpectDamage(path, what);
        if (shard != manifest.shards.end()) ExpectNoOtherNumbers(path, *shard, what);
        FlipByte(path, at, static_cast<char>(1 << bit));
        if (HasFatalFailure()) return;
      }
    }
    ExpectIntact();
  }
  void TruncateToEverySize(const std::string& file) {
    const std::string path = PathOf(2, file);
    const std::string content = ReadAll(path);
    for (uint64_t size = content.size(); size-- > 0;) {
      std::filesystem::resize_file(path, size);
      ExpectDamage(path, file + " of " + std::to_string(size) + " bytes");
      if (HasFatalFailure()) return;
    }
    WriteText(path, content + "x");
    ExpectDamage(path, file + " with a byte more");
    WriteText(path, content);
    ExpectIntact();
  }
  void ExpectIntact() const {
    const auto found = ReadIntact(directory_.path());
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(found->manifest->id, 2u);
    EXPECT_TRUE(found->damaged.empty());
    EXPECT_EQ(UsedInstead(*found), "");
  }
  std::set<std::string> Names(const std::string& directory) const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      names.insert(entry.path().filename());
    return names;
  }

  const TempDir directory_;
  const protocol::SliceTable table_ = MakeTable();
  std::unique_ptr<Store> store_;
};

TEST_F(DamageTest, EveryFlippedBitOfAShardAndTheManifestIsNoticed) {
  FlipEveryBit("shard-5.safetensors");
  FlipEveryBit("manifest.json");
}

TEST_F(DamageTest, EveryTruncationOfAShardAndTheManifestIsNoticed) {
  TruncateToEverySize("shard-5.safetensors");
  TruncateToEverySize("manifest.json");
}

using DamageTestLong = DamageTest;

TEST_F(DamageTestLong, EveryFlippedBitAndTruncationOfEveryFileIsNoticed) {
  const auto files = Names(directory_ / "checkpoint-000002");
  ASSERT_EQ(files.size(), 3u);
  uint64_t bytes = 0;
  for (const std::string& file : files) {
    bytes += std::filesystem::file_size(PathOf(2, file));
    FlipEveryBit(file);
    TruncateToEverySize(file);
  }
  EXPECT_GE(bytes, 4096u);
}

TEST_F(DamageTest, ReadingADamagedCheckpointChangesNothing) {
  FlipByte(PathOf(2, "shard-7.safetensors"), 1000, 1);
  const auto content = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path()))
      files[entry.path()] = entry.is_regular_file() ? ReadAll(entry.path()) : "";
    return files;
  };
  const auto before = content();
  EXPECT_EQ(Verify(directory_.path())->manifest->id, 1u);
  EXPECT_EQ(store_->Restore(Verify(directory_.path())->damaged)->manifest->id, 1u);
  const auto variables = ReadNewestVariables(directory_.path(), table_);
  ASSERT_TRUE(variables.ok()) << variables.status().ToString();
  EXPECT_EQ(std::memcmp(variables->variables[0].data(), MakeSlice(table_, 0, 1, 1)->memory.data(), 32 * 4), 0)
      << "those of checkpoint 1";
  EXPECT_THAT(variables->warning, StartsWith(PathOf(2, "shard-7.safetensors: ")));
  EXPECT_THAT(variables->warning, ::testing::EndsWith("; checkpoint 1 is used instead"));
  EXPECT_EQ(content(), before);
}

TEST_F(DamageTest, IfAllAreDamagedEachReasonIsSaid) {
  std::filesystem::resize_file(PathOf(2, "shard-7.safetensors"), 100);
  std::filesystem::remove(PathOf(1, "shard-5.safetensors"));
  const Status status = ReadIntact(directory_.path()).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_THAT(status.message(), StartsWith(PathOf(2, "shard-7.safetensors: has 100 bytes")));
  EXPECT_THAT(status.message(), HasSubstr("; the checkpoint before it cannot be used either: " +
                                          PathOf(1, "shard-5.safetensors: is missing")));
  EXPECT_THAT(status.message(), ::testing::EndsWith(": there is none"));
  EXPECT_EQ(ReadNewestVariables(directory_.path(), table_).status(), status);
}

TEST_F(DamageTest, AFormatOfAnotherVersionIsNoDamage) {
  const std::string path = PathOf(2, "manifest.json");
  std::string text = ReadAll(path);
  text.replace(text.find("leat-checkpoint-"), 17, "leat-checkpoint-1");
  text.resize(text.find(",\n  \"checksum\""));
  WriteText(path, text + ChecksumTail(text));
  EXPECT_EQ(ReadIntact(directory_.path()).status().code(), Code::kFailedPrecondition);
}

TEST_F(DamageTest, WhatIsKeptAsideIsNeitherReadNorRemoved) {
  FlipByte(PathOf(2, "manifest.json"), 30, 1);
  const auto damaged = ReadIntact(directory_.path())->damaged;
  ASSERT_TRUE(store_->SetAside(2).ok());
  EXPECT_EQ(AsideName(2), "checkpoint-000002.damaged");
  ASSERT_EQ(Names(directory_ / AsideName(2)).size(), 3u);
  EXPECT_EQ(ReadIntact(directory_.path())->manifest->id, 1u);
  EXPECT_TRUE(ReadIntact(directory_.path())->damaged.empty());

  store_.reset();
  store_ = std::move(*Store::Open(directory_.path(), true));
  auto restored = store_->Restore();
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(restored->manifest->id, 1u);
  EXPECT_EQ(restored->last_checkpoint, 2u) << "so that the next one is 3";
  for (uint64_t id = 3; id <= 4; ++id) ASSERT_TRUE(WriteCheckpoint(id).ok());
  ASSERT_TRUE(store_->Drop(4, {}).ok());
  EXPECT_EQ(Names(directory_.path()), (std::set<std::string>{"checkpoint-000002.damaged", "checkpoint-000004",
                                                             "job.yaml", "lock", "run", "term-000002"}));
  EXPECT_EQ(Names(directory_ / AsideName(2)).size(), 3u);
  // A second one with the same id would take its place.
  std::filesystem::copy(directory_ / AsideName(2), directory_ / "checkpoint-000002",
                        std::filesystem::copy_options::recursive);
  EXPECT_FALSE(store_->SetAside(2).ok());
}

TEST_F(DamageTest, OneCheckpointIsVerified) {
  EXPECT_EQ(VerifyCheckpoint(directory_.path(), 1), Status());
  FlipByte(PathOf(2, "shard-7.safetensors"), 1000, 1);
  EXPECT_EQ(VerifyCheckpoint(directory_.path(), 1), Status());
  EXPECT_EQ(VerifyCheckpoint(directory_.path(), 2).code(), Code::kDataLoss);
  ASSERT_TRUE(store_->Remove(1).ok());
  EXPECT_EQ(VerifyCheckpoint(directory_.path(), 1).code(), Code::kDataLoss);
}

TEST_F(DamageTest, TheStreamIsKeptFromTheOldestCheckpointOn) {
  EXPECT_EQ(store_->Restore()->oldest_watermark, (std::vector<Position>{{0, 64}, {1, 7}}));
  EXPECT_EQ(store_->Restore()->last_checkpoint, 2u);
  ASSERT_TRUE(store_->Drop(2, {}).ok());
  EXPECT_EQ(store_->Restore()->oldest_watermark, (std::vector<Position>{{0, 128}, {1, 7}}));
}

}  // namespace
}  // namespace leat::checkpoint
