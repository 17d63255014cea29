#include "storage/checkpoint/bucket/bucket.h"

#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/manifest.h"
#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/store.h"
#include "storage/checkpoint/testing.h"
#include "storage/object_store/testing.h"

namespace leat::checkpoint {
namespace {

using object_store::MemoryStore;
constexpr std::string_view kBucketSlots[] = {"velocity"};

class BucketTest : public ::testing::Test {
 protected:
  std::unique_ptr<Bucket> Coordinator(uint64_t term) {
    return std::make_unique<Bucket>(store_, term, "owner " + std::to_string(term) + "\n");
  }
  // Writes one server's shard in a new checkpoint of the directory, and uploads it.
  protocol::Manifest Shard(uint64_t id) {
    const std::string folder = dir_.path() + "/a/" + CheckpointName(id);
    EXPECT_TRUE(MakeDirectory(folder).ok());
    auto shard =
        WriteShard(folder, 5, MakeTable(), kBucketSlots, MakeSlices(MakeTable(), {0, 1, 2, 3, 4}, 1, id),
                   Durability::kNotSynced, {}, BucketShardName(5, uint64_t{0xab} << 32));
    EXPECT_EQ(shard->file, "shard-5-000000ab.safetensors");
    EXPECT_TRUE(
        store_->Put(ShardKey(folder, shard->file), *ReadFile(folder + "/" + shard->file, 1 << 20)).ok());
    protocol::Manifest manifest;
    manifest.id = id;
    manifest.directory = CheckpointName(id);
    manifest.watermark = {{0, 64 * id}};
    manifest.shards = {*shard};
    return manifest;
  }
  BucketManifest Whole(uint64_t term, uint64_t id) {
    return {.term = term,
            .manifest = Shard(id),
            .job = "name: job\n",
            .records = {protocol::IdsReserved{9, 9}, protocol::CutsMade{{MakeCut(0, 64 * id, 64 * id + 64)}},
                        protocol::MemberJoined{}}};
  }
  std::string Other() const { return dir_.path() + "/b"; }

  const TempDir dir_;
  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>();
};

TEST_F(BucketTest, AManifestIsReadAsItWasWritten) {
  const BucketManifest whole = Whole(3, 7);
  const std::string text = *EncodeBucketManifest(whole);
  const auto again = ParseBucketManifest(AsBytes(text), "m");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->term, 3u);
  EXPECT_EQ(again->manifest, whole.manifest);
  EXPECT_EQ(again->job, whole.job);
  ASSERT_EQ(again->records.size(), 2u) << "without the member";
  for (size_t at = 0; at < text.size(); at += kEachByte) {
    std::string damaged = text;
    damaged[at] ^= 4;
    EXPECT_EQ(ParseBucketManifest(AsBytes(damaged), "m").status().code(), Code::kDataLoss) << at;
  }
}

TEST_F(BucketTest, AJobIsFetchedUnderTheNextFreeTerm) {
  const auto coordinator = Coordinator(3);
  for (const uint64_t id : {1, 2}) ASSERT_TRUE(coordinator->Commit(Whole(3, id)).ok());
  ASSERT_TRUE(FetchJob(*store_, Other()).ok());
  EXPECT_EQ(*ReadJob(Other()), "name: job\n");
  EXPECT_EQ(ReadNewest(Other())->id, 2u);
  EXPECT_TRUE(VerifyCheckpoint(Other(), 2).ok());
  auto opened = Store::Open(Other(), true);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(protocol::NumberOf((*opened)->term()), 4u);
  EXPECT_EQ((*opened)->ReadJournal()->size(), 2u);
  EXPECT_EQ(FetchJob(*store_, Other()).code(), Code::kFailedPrecondition) << "has a job already";
}

TEST_F(BucketTest, ADamagedCheckpointIsPassedOver) {
  const auto coordinator = Coordinator(3);
  for (const uint64_t id : {1, 2, 3}) ASSERT_TRUE(coordinator->Commit(Whole(3, id)).ok());
  auto objects = store_->objects();
  Bytes& shard = objects["checkpoint-000003/shard-5-000000ab.safetensors"];
  shard.back() ^= std::byte{1};
  store_->Set("checkpoint-000003/shard-5-000000ab.safetensors", shard);
  ASSERT_TRUE(store_->Remove("checkpoint-000002/shard-5-000000ab.safetensors").ok());
  ASSERT_TRUE(FetchJob(*store_, Other()).ok());
  EXPECT_EQ(ReadNewest(Other())->id, 1u);
  store_->Set("checkpoint-000001/manifest.json", {});
  EXPECT_EQ(FetchJob(*store_, dir_.path() + "/c").code(), Code::kDataLoss);
  EXPECT_FALSE(Exists(dir_.path() + "/c/job.yaml"));
}

TEST_F(BucketTest, NothingElseInTheDirectoryIsRemoved) {
  ASSERT_TRUE(Coordinator(3)->Commit(Whole(3, 1)).ok());
  // The last two are names that a job's directory has, too.
  for (const char* name : {"checkpoint-500", "term-paper", "notes", "checkpoint-000500", "term-000002"}) {
    SCOPED_TRACE(name);
    const std::string directory = dir_.path() + "/of-" + name, file = directory + "/" + name + "/weights";
    ASSERT_TRUE(MakeDirectory(directory + "/" + name).ok());
    ASSERT_TRUE(ReplaceFile(directory + "/" + name, "weights", AsBytes("w")).ok());
    const Status refused = FetchJob(*store_, directory);
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
    EXPECT_NE(refused.message().find(directory + ": has '" + name + "'"), std::string::npos)
        << refused.message();
    EXPECT_TRUE(Exists(file));
    EXPECT_FALSE(Exists(directory + "/job.yaml"));
  }
  ASSERT_TRUE(MakeDirectory(Other() + "/lost+found").ok());
  EXPECT_TRUE(FetchJob(*store_, Other()).ok()) << "the root of a disk";
}

TEST_F(BucketTest, AnInterruptedFetchIsBegunAgain) {
  ASSERT_TRUE(Coordinator(3)->Commit(Whole(3, 1)).ok());
  ASSERT_TRUE(FetchJob(*store_, Other()).ok());
  // As a process leaves it that dies before the last step.
  ASSERT_TRUE(std::filesystem::remove(Other() + "/job.yaml"));
  ASSERT_TRUE(ReplaceFile(Other(), ".leat-fetching", AsBytes("checkpoint-000001\nterm-000003\n")).ok());
  ASSERT_TRUE(Coordinator(3)->Commit(Whole(3, 2)).ok());
  ASSERT_TRUE(ReplaceFile(Other(), "notes", AsBytes("n")).ok());
  EXPECT_EQ(FetchJob(*store_, Other()).code(), Code::kFailedPrecondition);
  EXPECT_TRUE(Exists(Other() + "/checkpoint-000001"));
  ASSERT_TRUE(std::filesystem::remove(Other() + "/notes"));
  ASSERT_TRUE(FetchJob(*store_, Other()).ok());
  EXPECT_FALSE(Exists(Other() + "/checkpoint-000001"));
  EXPECT_FALSE(Exists(Other() + "/.leat-fetching"));
  EXPECT_EQ(ReadNewest(Other())->id, 2u);
}

TEST_F(BucketTest, OneProcessFetchesIntoADirectory) {
  ASSERT_TRUE(Coordinator(3)->Commit(Whole(3, 1)).ok());
  ASSERT_TRUE(MakeDirectory(Other() + "/checkpoint-000001").ok());
  ASSERT_TRUE(ReplaceFile(Other(), ".leat-fetching", AsBytes("checkpoint-000001\nterm-000003\n")).ok());
  {
    const auto other = LockDirectory(Other());
    ASSERT_TRUE(other.ok());
    const Status refused = FetchJob(*store_, Other());
    EXPECT_EQ(refused.code(), Code::kFailedPrecondition);
    EXPECT_NE(refused.message().find("is in use by process"), std::string::npos) << refused.message();
    EXPECT_TRUE(Exists(Other() + "/checkpoint-000001"));
  }
  EXPECT_TRUE(FetchJob(*store_, Other()).ok());
}

TEST_F(BucketTest, AnOlderCoordinatorWritesAndRemovesNothing) {
  const auto older = Coordinator(3), newer = Coordinator(4);
  ASSERT_TRUE(older->Commit(Whole(3, 1)).ok());
  ASSERT_TRUE(newer->Claim().ok());
  const auto before = store_->objects();
  EXPECT_TRUE(before.contains("terms/4"));
  EXPECT_FALSE(before.contains("terms/3"));
  BucketManifest late = Whole(3, 2);
  const auto with_shard = store_->objects();
  EXPECT_EQ(older->Commit(late).code(), Code::kFailedPrecondition);
  EXPECT_EQ(older->Drop(9, 9).code(), Code::kFailedPrecondition);
  EXPECT_EQ(Coordinator(3)->Claim().code(), Code::kFailedPrecondition);
  EXPECT_EQ(store_->objects(), with_shard);
  EXPECT_EQ(Coordinator(4)->Claim().code(), Code::kOk) << "the same owner";
  EXPECT_EQ(Bucket(store_, 4, "another\n").Claim().code(), Code::kFailedPrecondition);
  // A manifest that it put late is not the newest.
  const std::string ninth = *EncodeBucketManifest(Whole(3, 9));
  store_->Set("checkpoint-000009/manifest.json", Bytes(AsBytes(ninth).begin(), AsBytes(ninth).end()));
  ASSERT_TRUE(newer->Commit(Whole(4, 3)).ok());
  ASSERT_TRUE(FetchJob(*store_, Other()).ok());
  EXPECT_EQ(ReadNewest(Other())->id, 3u);
}

TEST_F(BucketTest, OldAndIncompleteCheckpointsAreRemoved) {
  const auto coordinator = Coordinator(1);
  ASSERT_TRUE(coordinator->Commit(Whole(1, 1)).ok());
  (void)Shard(2);
  for (const uint64_t id : {3, 4}) ASSERT_TRUE(coordinator->Commit(Whole(1, id)).ok());
  (void)Shard(5);  // is being made
  store_->Begin({"checkpoint-000002/x", "a"});
  store_->Begin({"checkpoint-000005/x", "b"});
  ASSERT_TRUE(coordinator->Drop(3, 4).ok());
  const auto contents = LookAtBucket(*store_);
  EXPECT_EQ(contents->complete, (std::vector<uint64_t>{3, 4}));
  EXPECT_TRUE(store_->List("checkpoint-000002/")->empty());
  EXPECT_EQ(store_->List("checkpoint-000005/")->size(), 1u);
  EXPECT_EQ(store_->OpenUploads("")->size(), 1u);
}

TEST_F(BucketTest, MissingShardsAreFetchedIntoTheCache) {
  const auto coordinator = Coordinator(1);
  const protocol::Manifest manifest = Shard(1);
  const std::string folder = dir_.path() + "/a/" + CheckpointName(1),
                    path = folder + "/" + manifest.shards[0].file;
  std::filesystem::remove(path);
  ASSERT_TRUE(coordinator->FetchMissing(manifest, folder).ok());
  EXPECT_TRUE(VerifyFile(path, manifest.shards[0].bytes, manifest.shards[0].checksum).ok());
  std::filesystem::remove(path);
  const BucketManifest whole = Whole(1, 2);
  store_->FailWith(Status(Code::kUnavailable, "away"));
  EXPECT_EQ(coordinator->FetchMissing(manifest, folder).code(), Code::kUnavailable);
  EXPECT_EQ(coordinator->Commit(whole).code(), Code::kUnavailable);
}

}  // namespace
}  // namespace leat::checkpoint
