#include "storage/checkpoint/store.h"
#include "storage/checkpoint/shard.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/fields/testing.h"
#include "storage/checkpoint/manifest.h"
#include "storage/checkpoint/random/testing.h"
#include "storage/checkpoint/testing.h"

namespace leat::checkpoint {
namespace {

using protocol::CutsMade;
using protocol::IdsReserved;
using protocol::Manifest;
using protocol::Position;
using protocol::StreamStart;

constexpr std::string_view kSlots[] = {"velocity"};

std::unique_ptr<Store> OpenOrDie(const std::string& path, bool resume) {
  auto store = Store::Open(path, resume);
  EXPECT_TRUE(store.ok()) << store.status().ToString();
  return store.ok() ? std::move(*store) : nullptr;
}

// A checkpoint on two servers whose content depends on its id alone.
Result<Manifest> WriteCheckpoint(Store* store, uint64_t id) {
  const auto table = MakeTable();
  LEAT_ASSIGN_OR_RETURN(const auto order, store->Prepare(id, 0));
  Manifest manifest;
  manifest.id = id;
  manifest.directory = std::filesystem::path(order.directory).filename();
  manifest.watermark = {{0, 64 * id}, {1, 7}};
  manifest.open = {MakeCut(0, 64 * id, 64 * id + 64), MakeCut(1, 7, 9)};
  if (id % 2 == 0) manifest.fingerprints = {{64 * id, 0xfedcba9876543210}, {0, 0}};
  manifest.step = 11 * id;
  manifest.events = ~uint64_t{0} - id;
  manifest.next_incarnation = 3 * id;
  for (const auto& [node, ids] : {std::pair{5, std::vector<uint32_t>{0, 3}}, {7, {1, 2, 4}}}) {
    LEAT_ASSIGN_OR_RETURN(auto shard, WriteShard(order.directory, static_cast<uint64_t>(node), table, kSlots,
                                                 MakeSlices(table, ids, 1, id)));
    manifest.shards.push_back(std::move(shard));
  }
  LEAT_RETURN_IF_ERROR(store->Commit(manifest));
  return manifest;
}

// Expects all slices to be those of the manifest's id, bit for bit.
void ExpectWhole(const std::string& directory, const Manifest& manifest) {
  const auto table = MakeTable();
  size_t slices = 0;
  for (const auto& shard : manifest.shards) {
    const auto reader =
        ShardReader::Open(directory + "/" + manifest.directory + "/" + shard.file, shard.checksum);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    for (const auto& incarnation : shard.slices) {
      const auto slice = (*reader)->Read(table, incarnation.slice, 1);
      ASSERT_TRUE(slice.ok()) << slice.status().ToString();
      ExpectSame(*slice, *MakeSlice(table, incarnation.slice.value, 1, manifest.id));
      ++slices;
    }
  }
  EXPECT_EQ(slices, table.slices.size());
}

TEST(Store, AJobIsReadBackUnchanged) {
  const TempDir dir;
  const std::string path = dir / "jobs/first";
  Manifest newest;
  {
    const auto store = OpenOrDie(path, false);
    EXPECT_EQ(store->directory(), path);
    ASSERT_TRUE(store->WriteJob("model: x").ok());
    EXPECT_FALSE(store->Restore()->manifest);
    ASSERT_TRUE(store->AppendJournal(StreamStart{{{0, 5}, {0, 6}}}).ok());
    ASSERT_TRUE(store->AppendJournal(CutsMade{{MakeCut(0, 5, 9), MakeCut(1, 6, 7)}}).ok());
    ASSERT_TRUE(WriteCheckpoint(store.get(), 1).ok());
    newest = *WriteCheckpoint(store.get(), 2);
    ASSERT_TRUE(store->AppendJournal(IdsReserved{11, ~uint64_t{0}}).ok());
    ASSERT_TRUE(store->Prepare(3, 0).ok());  // never committed
  }
  const auto store = OpenOrDie(path, true);
  EXPECT_EQ(*store->ReadJob(), "model: x");
  const auto restored = store->Restore();
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(restored->manifest, newest);
  ExpectWhole(path, newest);
  ASSERT_EQ(restored->journal.size(), 3u);
  EXPECT_EQ(std::get<StreamStart>(restored->journal[0]).start, (std::vector<Position>{{0, 5}, {0, 6}}));
  EXPECT_EQ(std::get<CutsMade>(restored->journal[1]).cuts, (std::vector{MakeCut(0, 5, 9), MakeCut(1, 6, 7)}));
  EXPECT_EQ(std::get<IdsReserved>(restored->journal[2]).node, 11u);
  EXPECT_EQ(std::get<IdsReserved>(restored->journal[2]).lease, ~uint64_t{0});
}

TEST(Store, VariablesArePutTogether) {
  const TempDir dir;
  const auto store = OpenOrDie(dir.path(), false);
  const auto manifest = *WriteCheckpoint(store.get(), 4);
  const auto table = MakeTable();
  const auto variables = ReadVariables(dir.path(), manifest, table);
  ASSERT_TRUE(variables.ok()) << variables.status().ToString();
  ASSERT_EQ(variables->size(), 2u);
  for (uint32_t id = 0; id < table.slices.size(); ++id) {
    const auto& spec = table.slices[id];
    EXPECT_EQ(std::memcmp((*variables)[spec.variable].data() + spec.begin,
                          MakeSlice(table, id, 1, 4)->memory.data(), spec.elements() * 4),
              0);
  }
  auto partial = manifest;
  partial.shards.pop_back();
  EXPECT_EQ(ReadVariables(dir.path(), partial, table).status().code(), Code::kDataLoss);
  auto smaller = table;
  smaller.slices.pop_back();
  EXPECT_EQ(ReadVariables(dir.path(), manifest, smaller).status().code(), Code::kFailedPrecondition);
}

TEST(Store, ADirectoryWithAJobIsNotOverwrittenAndOneWithoutIsNotResumed) {
  const TempDir dir;
  EXPECT_EQ(Store::Open(dir / "none", true).status().code(), Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
  EXPECT_EQ(Store::Open(dir.path(), true).status().code(), Code::kNotFound);
  ASSERT_TRUE(OpenOrDie(dir.path(), false)->WriteJob("a: 1\n").ok());
  const auto again = Store::Open(dir.path(), false);
  EXPECT_EQ(again.status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(*OpenOrDie(dir.path(), true)->ReadJob(), "a: 1\n");
  std::filesystem::remove(dir / "term-000002/journal");
  EXPECT_EQ(Store::Open(dir.path(), true).status(),
            Status(Code::kDataLoss, dir.path() + ": the journal is missing"));
}

TEST(Store, TwoProcessesCannotOwnOneDirectory) {
  const TempDir dir;
  {
    const auto store = OpenOrDie(dir.path(), false);
    ASSERT_TRUE(store->WriteJob("a: 1\n").ok());
    const auto second = Store::Open(dir.path(), true);
    EXPECT_EQ(second.status(), Status(Code::kFailedPrecondition,
                                      dir.path() + ": is in use by process " + std::to_string(getpid())));
  }
  EXPECT_TRUE(Store::Open(dir.path(), true).ok());
}

TEST(Store, AnUnwritableDirectoryIsSaid) {
  const TempDir dir;
  chmod(dir.path().c_str(), 0555);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(2);
    const auto here = Store::Open(dir.path(), false).status();
    const auto below = Store::Open(dir / "below", false).status();
    _exit(here.code() == Code::kPermissionDenied && here.message().find(dir.path()) == 0 &&
                  below.code() == Code::kPermissionDenied
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  chmod(dir.path().c_str(), 0755);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  WriteText(dir / "file", "");
  EXPECT_EQ(Store::Open(dir / "file", false).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(Store::Open("", false).status().code(), Code::kInvalidArgument);
}

// In a separate process, because the limit on file sizes applies to the process. Existing data stays
// readable, and the journal continues when there is space again.
TEST(Store, AFullDiskLosesNothing) {
  const TempDir dir;
  {
    const auto store = OpenOrDie(dir.path(), false);
    ASSERT_TRUE(store->WriteJob("a: 1\n").ok());
    ASSERT_TRUE(WriteCheckpoint(store.get(), 1).ok());
  }
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const auto store = OpenOrDie(dir.path(), true);
    if (!store->AppendJournal(IdsReserved{1, 1}).ok()) _exit(1);
    rlimit limit{60, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    if (store->AppendJournal(CutsMade{{MakeCut(0, 0, 9)}}).code() != Code::kResourceExhausted) _exit(2);
    if (WriteCheckpoint(store.get(), 2).status().code() != Code::kResourceExhausted) _exit(3);
    if (store->Drop(2, {}).code() != Code::kOk) _exit(4);  // needs no additional space
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    if (!store->AppendJournal(IdsReserved{2, 2}).ok()) _exit(5);
    if (!WriteCheckpoint(store.get(), 3).ok()) _exit(6);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto restored = OpenOrDie(dir.path(), true)->Restore();
  ASSERT_TRUE(restored.ok()) << restored.status().ToString();
  EXPECT_EQ(restored->manifest->id, 3u);
  ASSERT_EQ(restored->journal.size(), 2u);
  EXPECT_EQ(std::get<IdsReserved>(restored->journal[1]).node, 2u);
}

TEST(Store, DropKeepsWhatTheOldestKeptCheckpointNeeds) {
  const TempDir dir;
  const auto store = OpenOrDie(dir.path(), false);
  ASSERT_TRUE(store->WriteJob("a: 1\n").ok());
  ASSERT_TRUE(store->AppendJournal(StreamStart{{{0, 0}, {0, 0}}}).ok());
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_TRUE(store->AppendJournal(IdsReserved{i, 0}).ok());
    ASSERT_TRUE(store->AppendJournal(CutsMade{{MakeCut(0, 64 * i, 64 * i + 64), MakeCut(1, i, i + 1)}}).ok());
  }
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(WriteCheckpoint(store.get(), id).ok());
  ASSERT_TRUE(store->Drop(2, {{0, 128}, {0, 5}}).ok());
  EXPECT_FALSE(std::filesystem::exists(dir / "checkpoint-000001"));
  EXPECT_TRUE(std::filesystem::exists(dir / "checkpoint-000002/manifest.json"));
  ASSERT_TRUE(store->AppendJournal(IdsReserved{9, 9}).ok());

  const auto restored = store->Restore();
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(restored->manifest->id, 3u);
  std::vector<protocol::Cut> cuts;
  size_t starts = 0;
  std::vector<uint64_t> nodes;
  for (const auto& record : restored->journal) {
    if (const auto* made = std::get_if<CutsMade>(&record)) {
      cuts.insert(cuts.end(), made->cuts.begin(), made->cuts.end());
    } else if (const auto* given = std::get_if<IdsReserved>(&record)) {
      nodes.push_back(given->node);
    } else {
      ++starts;
    }
  }
  EXPECT_EQ(starts, 1u);
  EXPECT_EQ(nodes, (std::vector<uint64_t>{5, 9}));
  EXPECT_EQ(cuts, (std::vector{MakeCut(0, 128, 192), MakeCut(0, 192, 256), MakeCut(0, 256, 320),
                               MakeCut(0, 320, 384), MakeCut(1, 5, 6)}));
}

TEST(Store, WhatFailedIsRemoved) {
  const TempDir dir;
  {
    const auto store = OpenOrDie(dir.path(), false);
    ASSERT_TRUE(store->WriteJob("a: 1\n").ok());
    const auto exists = [&](uint64_t id) {
      return std::filesystem::exists(dir / ("checkpoint-00000" + std::to_string(id)));
    };
    ASSERT_TRUE(WriteCheckpoint(store.get(), 1).ok());
    for (const uint64_t id : {2, 3, 5}) {
      ASSERT_TRUE(store->Prepare(id, 0).ok());
      WriteText(dir / ("checkpoint-00000" + std::to_string(id) + "/shard-5.safetensors"), "torn");
    }
    ASSERT_TRUE(store->Remove(2).ok());
    ASSERT_TRUE(store->Remove(2).ok()) << "nothing to remove";
    EXPECT_FALSE(exists(2));
    ASSERT_TRUE(WriteCheckpoint(store.get(), 4).ok());
    ASSERT_TRUE(store->Drop(1, {}).ok());
    EXPECT_TRUE(exists(1));
    EXPECT_FALSE(exists(3)) << "incomplete, and before the newest";
    EXPECT_TRUE(exists(5)) << "may be in progress";
  }
  const auto store = OpenOrDie(dir.path(), true);
  EXPECT_FALSE(std::filesystem::exists(dir / "checkpoint-000005"));
  EXPECT_EQ(store->Restore()->manifest->id, 4u);
}

TEST(Store, ACheckpointThatCannotFitIsRefusedBeforeItIsWritten) {
  const TempDir dir;
  const auto store = OpenOrDie(dir.path(), false);
  ASSERT_TRUE(store->WriteJob("a: 1\n").ok());
  for (uint64_t id = 1; id <= 3; ++id) ASSERT_TRUE(WriteCheckpoint(store.get(), id).ok());
  const auto order = store->Prepare(4, uint64_t{1} << 60);
  EXPECT_EQ(order.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(order.status().message().find(dir / "checkpoint-000004: needs 1099511627778 MiB, the disk has "),
            0u);
  EXPECT_FALSE(std::filesystem::exists(dir / "checkpoint-000004"));
  EXPECT_TRUE(std::filesystem::exists(dir / "checkpoint-000001/manifest.json")) << "it would not be enough";
}

// In a separate process, with a disk of its own.
TEST(Store, OldCheckpointsMakeRoomForTheNext) {
  const TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=16m") != 0) {
      _exit(77);
    }
    const auto store = OpenOrDie(dir / "j", false);
    const std::string ballast(4 << 20, 'x');
    for (uint64_t id = 1; id <= 2; ++id) {
      if (!WriteCheckpoint(store.get(), id).ok()) _exit(1);
      WriteText(dir / ("j/checkpoint-00000" + std::to_string(id) + "/shard-ballast.safetensors"), ballast);
    }
    const auto exists = [&](const char* id) {
      return std::filesystem::exists(dir / "j/checkpoint-00000" + std::string(id));
    };
    if (!store->Prepare(3, 4 << 20).ok() || !exists("1") || !exists("3")) _exit(2);
    if (store->Prepare(3, 12 << 20).ok() || !exists("1")) _exit(3);
    if (!store->Prepare(3, 9 << 20).ok() || exists("1") || !exists("2")) _exit(4);
    // Old checkpoints make room for the journal, too, but never the newest.
    if (!WriteCheckpoint(store.get(), 3).ok()) _exit(5);
    std::ofstream(dir / "ballast", std::ios::binary) << std::string(16 << 20, 'x');
    const CutsMade many{std::vector(1000, MakeCut(0, 0, 9))};
    if (!store->AppendJournal(many).ok() || exists("2") || !exists("3")) _exit(6);
    std::ofstream(dir / "more", std::ios::binary) << std::string(16 << 20, 'x');
    if (store->AppendJournal(many).code() != Code::kResourceExhausted || !exists("3")) _exit(7);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "a disk of its own needs root";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Store, OthersCannotReadIt) {
  const TempDir dir;
  const auto store = OpenOrDie(dir / "jobs/j", false);
  ASSERT_TRUE(store->WriteJob("a: 1\n").ok());
  ASSERT_TRUE(WriteCheckpoint(store.get(), 1).ok());
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir / "jobs")) {
    const auto mode = static_cast<unsigned>(entry.status().permissions()) & 0777;
    EXPECT_EQ(mode, entry.is_directory() ? 0700u : 0600u) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 10u) << "the job and its files, the term and its journal, the checkpoint and its files";
}

TEST(Store, WhatIsNotThereCannotBeCommitted) {
  const TempDir dir;
  const auto store = OpenOrDie(dir.path(), false);
  auto manifest = *WriteCheckpoint(store.get(), 1);
  EXPECT_EQ(store->Prepare(1, 0).status().code(), Code::kFailedPrecondition);
  manifest.id = 2;
  EXPECT_EQ(store->Commit(manifest).code(), Code::kInvalidArgument);
  manifest.directory = "checkpoint-000002";
  EXPECT_EQ(store->Commit(manifest).code(), Code::kDataLoss);
  ASSERT_TRUE(store->Prepare(2, 0).ok());
  EXPECT_EQ(store->Commit(manifest).code(), Code::kDataLoss);
  std::filesystem::copy(dir / "checkpoint-000001", dir / "checkpoint-000002",
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove(dir / "checkpoint-000002/manifest.json");
  auto wrong = manifest;
  ++wrong.shards[0].bytes;
  EXPECT_EQ(store->Commit(wrong).code(), Code::kDataLoss);
  for (const char* file : {"../checkpoint-000001/shard-5.safetensors", "..", "", "/etc/passwd", "a\xff"}) {
    wrong = manifest;
    wrong.shards[0].file = file;
    EXPECT_EQ(store->Commit(wrong).code(), Code::kInvalidArgument) << file;
  }
  wrong = manifest;
  wrong.shards[1].slices = wrong.shards[0].slices;
  EXPECT_EQ(store->Commit(wrong).code(), Code::kInvalidArgument);
  EXPECT_EQ(store->Restore()->manifest->id, 1u);
  EXPECT_TRUE(store->Commit(manifest).ok());
  EXPECT_EQ(store->Restore()->manifest->id, 2u);
}

TEST(Store, RemainsOfAnUnfinishedCheckpointAreRemovedWhenItsIdIsReused) {
  const TempDir dir;
  const auto store = OpenOrDie(dir.path(), false);
  const auto order = *store->Prepare(1, 0);
  WriteText(order.directory + "/shard-5.safetensors.tmp", "torn");
  ASSERT_TRUE(store->Prepare(1, 0).ok());
  EXPECT_TRUE(std::filesystem::is_empty(order.directory));
}

// Another program may give its folders the same names.
TEST(Store, FilesOfOthersAreNeverRemoved) {
  const TempDir dir;
  const std::string weights = dir / "checkpoint-000001/model.safetensors",
                    paper = dir / "term-000001.over/paper";
  std::filesystem::create_directories(dir / "term-000001.over");
  ASSERT_TRUE(ReplaceFile(dir / "term-000001.over", "paper", AsBytes("p")).ok());
  {
    const auto store = OpenOrDie(dir.path(), false);
    ASSERT_TRUE(store->WriteJob("a: 1\n").ok());
    std::filesystem::create_directories(dir / "checkpoint-000001");
    ASSERT_TRUE(ReplaceFile(dir / "checkpoint-000001", "model.safetensors", AsBytes("w")).ok());
    ASSERT_TRUE(WriteCheckpoint(store.get(), 2).ok());
    ASSERT_TRUE(store->Drop(2, {}).ok());
    EXPECT_TRUE(Exists(weights)) << "as if it were a checkpoint that was given up";
  }
  const auto store = OpenOrDie(dir.path(), true);
  EXPECT_TRUE(Exists(weights));
  EXPECT_TRUE(Exists(paper));
  EXPECT_TRUE(store->Remove(2).ok());
  EXPECT_FALSE(Exists(dir / "checkpoint-000002"));
}

TEST(Store, AFlippedByteOfManifestOrJobIsDataLoss) {
  const TempDir dir;
  const auto store = OpenOrDie(dir.path(), false);
  ASSERT_TRUE(store->WriteJob("model:\n  layers: 3\n").ok());
  ASSERT_TRUE(WriteCheckpoint(store.get(), 1).ok());
  ASSERT_TRUE(WriteCheckpoint(store.get(), 2).ok());
  const std::string manifest = dir / "checkpoint-000002/manifest.json";
  const std::string bytes = ReadAll(manifest);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    for (const int bits : {1 << i % 8, 0xff}) {
      damaged[i] = static_cast<char>(bytes[i] ^ bits);
      const auto parsed = ParseManifest(AsBytes(damaged), manifest);
      EXPECT_EQ(parsed.status().code(), Code::kDataLoss) << i;
    }
    EXPECT_EQ(ParseManifest(AsBytes(bytes).first(i), manifest).status().code(), Code::kDataLoss) << i;
  }
  // Nobody has said that it is to be passed over.
  FlipByte(manifest, bytes.size() / 2, 4);
  const auto restored = store->Restore();
  EXPECT_EQ(restored.status().code(), Code::kDataLoss);
  EXPECT_EQ(restored.status().message().find(manifest), 0u) << restored.status().message();

  const std::string job = dir / "job.yaml";
  const size_t size = ReadAll(job).size();
  for (size_t i = 0; i < size; ++i) {
    FlipByte(job, i, 1);
    EXPECT_EQ(store->ReadJob().status().code(), Code::kDataLoss) << i;
    FlipByte(job, i, 1);
  }
  EXPECT_TRUE(store->ReadJob().ok());
}

// With valid checksums, so that the content has to be checked.
TEST(Store, AManifestThatContradictsItselfIsDataLoss) {
  const TempDir dir;
  const auto store = OpenOrDie(dir.path(), false);
  const std::string text = EncodeManifest(*WriteCheckpoint(store.get(), 1));
  const std::string body = text.substr(0, text.size() - ChecksumTail("").size());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = body;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    return ParseManifest(AsBytes(changed + ChecksumTail(changed)), "m").status();
  };
  EXPECT_TRUE(with("shard-5", "shard-5").ok());
  EXPECT_EQ(with("leat-checkpoint-4", "leat-checkpoint-1").code(), Code::kFailedPrecondition)
      << "not damaged";
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"shard-5", "../shard-5"},
           {"checkpoint-000001", "/tmp"},
           {"\"watermark\"", "\"tidemark\""},
           {"\"step\": 11", "\"step\": -11"},
           {"\"step\"", "\"steps\""},
           {"\"run\":1", "\"run\":0"},
           {R"("watermark": [{"epoch":0,"offset":64})", R"("watermark": [[0,64])"},
           {R"("watermark": [{"epoch":0,"offset":64})", R"("watermark": [{"epoch":0,"offset":-64})"},
           {R"("watermark": [{"epoch":0,"offset":64})", R"("watermark": [{"epoch":4294967296,"offset":64})"},
           {"\"batch_size\":32", "\"batch_size\":0"},
           {"\"end\":128", "\"end\":1e2"},
           {"fedcba9876543210", "fedcba987654321"},
           {"fedcba9876543210", "fedcba987654321x"},
           {R"("slices":[{"slice":0,)", R"("slices":[{"slice":1,)"},  // which the other shard has
           {"\"id\": 1", "\"id\": [[[[[[[[[[[[1]]]]]]]]]]]]"},
       }) {
    EXPECT_EQ(with(from, to).code(), Code::kDataLoss) << from << " to " << to;
  }
}

// Checkpoints on disk have this text.
TEST(Store, AManifestHasALineForEachField) {
  protocol::Manifest manifest;
  manifest.id = 7;
  manifest.directory = "checkpoint-000007";
  manifest.step = 41;
  manifest.events = 12;
  manifest.next_incarnation = 9;
  manifest.watermark = {{0, 64}, {1, 7}};
  manifest.open = {MakeCut(0, 64, 128)};
  manifest.shards = {{"shard-5.safetensors", 1234, 0x4d, {{SliceId(0), Incarnation(3)}}}};
  manifest.fingerprints = {{63, 0xab}};
  const std::string text =
      R"({
  "format": "leat-checkpoint-4",
  "id": 7,
  "directory": "checkpoint-000007",
  "step": 41,
  "events": 12,
  "next_incarnation": 9,
  "watermark": [{"epoch":0,"offset":64},{"epoch":1,"offset":7}],
  "open": [{"partition":0,"after":{"epoch":0,"offset":64},"begin":{"epoch":0,"offset":64},"end":128,)"
      R"("hash":"fedcba9876543210","batch_size":32,"shuffle_seed":"ffffffffffffffff","run":1}],
  "shards": [{"file":"shard-5.safetensors","bytes":1234,"checksum":"000000000000004d",)"
      R"("slices":[{"slice":0,"incarnation":3}]}])";
  const std::string fingerprints = R"(,
  "fingerprints": [{"offset":63,"hash":"00000000000000ab"}])";
  const std::string whole = text + fingerprints;
  EXPECT_EQ(EncodeManifest(manifest), whole + ChecksumTail(whole));
  EXPECT_EQ(*ParseManifest(AsBytes(whole + ChecksumTail(whole)), "m"), manifest);

  // Fingerprints were added last: a manifest without them is read.
  const auto former = ParseManifest(AsBytes(text + ChecksumTail(text)), "m");
  ASSERT_TRUE(former.ok()) << former.status().ToString();
  manifest.fingerprints.clear();
  EXPECT_EQ(*former, manifest);
}

TEST(Store, RandomManifestsComeBack) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const auto manifest = fields::Random<protocol::Manifest>(seed, /*for_json=*/true);
    const auto read = ParseManifest(AsBytes(EncodeManifest(manifest)), "m");
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(*read, manifest);
  }
}

TEST(Store, ACheckpointInAnothersDirectoryIsDataLoss) {
  const TempDir dir;
  const auto store = OpenOrDie(dir.path(), false);
  ASSERT_TRUE(WriteCheckpoint(store.get(), 1).ok());
  std::filesystem::rename(dir / "checkpoint-000001", dir / "checkpoint-000002");
  EXPECT_EQ(ReadNewest(dir.path()).status().code(), Code::kDataLoss);
}

TEST(Store, ADamagedOrMissingPartIsDataLossBeforeAnythingStarts) {
  const TempDir dir;
  EXPECT_EQ(Verify(dir.path()).status(), Status(Code::kNotFound, dir.path() + ": there is no job in it"));
  const auto store = OpenOrDie(dir.path(), false);
  ASSERT_TRUE(store->WriteJob("a: 1\n").ok());
  ASSERT_TRUE(store->AppendJournal(IdsReserved{1, 1}).ok());
  EXPECT_EQ(ReadNewest(dir.path()).status().code(), Code::kNotFound);
  EXPECT_TRUE(Verify(dir.path()).ok());
  const auto manifest = *WriteCheckpoint(store.get(), 1);
  EXPECT_EQ(*ReadNewest(dir.path()), manifest);
  EXPECT_EQ(*ReadJob(dir.path()), "a: 1\n");
  EXPECT_TRUE(Verify(dir.path()).ok());

  const std::string shard = dir / manifest.directory + "/" + manifest.shards[1].file;
  const auto expect_damage = [&](const std::string& path) {
    const Status status = Verify(dir.path()).status();
    EXPECT_EQ(status.code(), Code::kDataLoss) << path;
    EXPECT_EQ(status.message().find(path + ": "), 0u) << status.message();
  };
  for (const std::string& path :
       {dir / "job.yaml", dir / "term-000001/journal", dir / manifest.directory + "/manifest.json", shard}) {
    const uint64_t size = std::filesystem::file_size(path);
    for (const uint64_t at : {uint64_t{0}, size / 2, size - 1}) {
      FlipByte(path, at, 0x10);
      expect_damage(path);
      FlipByte(path, at, 0x10);
    }
    EXPECT_TRUE(Verify(dir.path()).ok());
  }
  std::filesystem::resize_file(shard, 100);
  expect_damage(shard);
  EXPECT_EQ(store->Restore().status(), Status(Code::kDataLoss, shard + ": has 100 bytes, the manifest says " +
                                                                   std::to_string(manifest.shards[1].bytes)));
  std::filesystem::remove(shard);
  expect_damage(shard);
  EXPECT_EQ(store->Restore().status().code(), Code::kDataLoss);
  ASSERT_TRUE(WriteCheckpoint(store.get(), 2).ok());
  EXPECT_TRUE(Verify(dir.path()).ok());
  std::filesystem::remove(dir / "term-000001/journal");
  EXPECT_EQ(Verify(dir.path()).status(), Status(Code::kDataLoss, dir.path() + ": the journal is missing"));
}

}  // namespace
}  // namespace leat::checkpoint
