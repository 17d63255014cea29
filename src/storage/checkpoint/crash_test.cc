// Processes that write checkpoints are killed at random moments. The newest complete checkpoint remains, bit
// for bit.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

#include "storage/checkpoint/shard.h"
#include "storage/checkpoint/store.h"
#include "storage/checkpoint/testing.h"

namespace leat::checkpoint {
namespace {

using protocol::CutsMade;
using protocol::IdsReserved;
using protocol::Manifest;

constexpr std::string_view kAdamSlots[] = {"moment1", "moment2"};

// Reports progress word by word, so that the reader never sees half a word.
void Say(int out, uint64_t what) {
  if (write(out, &what, sizeof(what)) != sizeof(what)) _exit(3);
}

// The writing process: resumes, writes checkpoints and drops old ones. Reports each step after it is durable.
void Live(const std::string& directory, int out) {
  const auto table = MakeTable();
  auto opened = Store::Open(directory, true);
  if (!opened.ok()) _exit(4);
  Store& store = **opened;
  auto restored = store.Restore();
  if (!restored.ok()) _exit(5);
  uint64_t id = restored->manifest ? restored->manifest->id : 0;
  while (true) {
    ++id;
    if (!store.AppendJournal(CutsMade{{MakeCut(0, 64 * id, 64 * id + 64)}}).ok()) _exit(6);
    Say(out, 2 * id);
    const auto order = store.Prepare(id, 0);
    if (!order.ok()) _exit(7);
    Manifest manifest;
    manifest.id = id;
    manifest.directory = std::filesystem::path(order->directory).filename();
    manifest.watermark = {{0, 64 * id}};
    for (const uint64_t node : {1, 2}) {
      const auto ids = node == 1 ? std::vector<uint32_t>{0, 1, 2} : std::vector<uint32_t>{3, 4};
      auto shard = WriteShard(order->directory, node, table, kAdamSlots, MakeSlices(table, ids, 2, id));
      if (!shard.ok()) _exit(8);
      manifest.shards.push_back(*shard);
    }
    if (!store.Commit(manifest).ok()) _exit(9);
    Say(out, 2 * id + 1);
    if (id > 2 && !store.Drop(id - 1, {{0, 64 * (id - 1)}}).ok()) _exit(10);
  }
}

// Lets a process report `steps` words, waits a random time, and kills it. Returns its last word, or 0.
uint64_t KillOne(const std::string& directory, Rng* rng) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Live(directory, ends[1]);
  }
  close(ends[1]);
  uint64_t word = 0;
  uint64_t last = 0;
  for (uint64_t steps = rng->Below(6); steps > 0; --steps) {
    if (read(ends[0], &word, sizeof(word)) != sizeof(word)) break;
    last = word;
  }
  const timespec moment{0, static_cast<long>(rng->Below(20'000'000))};
  nanosleep(&moment, nullptr);
  kill(child, SIGKILL);
  while (read(ends[0], &word, sizeof(word)) == sizeof(word)) last = word;
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed by itself: " << WEXITSTATUS(status);
  return last;
}

TEST(Crash, TheNewestCompleteCheckpointIsAlwaysThere) {
  const TempDir dir;
  const auto table = MakeTable();
  {
    auto store = Store::Open(dir.path(), false);
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE((*store)->WriteJob("a: 1\n").ok());
  }
  Rng rng(1);
  uint64_t committed = 0;  // the newest one reported as committed
  uint64_t journaled = 0;
  for (int incarnation = 0; incarnation < 25; ++incarnation) {
    const uint64_t last = KillOne(dir.path(), &rng);
    if (last > 0) {
      journaled = last / 2;
      committed = std::max(committed, last % 2 == 1 ? last / 2 : last / 2 - 1);
    }
    const auto store = Store::Open(dir.path(), true);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    const auto restored = (*store)->Restore();
    ASSERT_TRUE(restored.ok()) << restored.status().ToString();
    // Reported checkpoints exist. Later ones may exist, too.
    const uint64_t id = restored->manifest ? restored->manifest->id : 0;
    ASSERT_GE(id, committed);
    ASSERT_LE(id, committed + 1);
    committed = id;
    uint64_t newest_cut = 0;
    for (const auto& record : restored->journal) {
      if (const auto* made = std::get_if<CutsMade>(&record)) newest_cut = made->cuts.back().begin.offset / 64;
    }
    ASSERT_GE(newest_cut, journaled);
    if (id == 0) continue;
    for (const auto& shard : restored->manifest->shards) {
      const auto reader =
          ShardReader::Open(dir / restored->manifest->directory + "/" + shard.file, shard.checksum);
      ASSERT_TRUE(reader.ok()) << reader.status().ToString();
      for (const auto& slice : shard.slices) {
        const auto read = (*reader)->Read(table, slice.slice, 2);
        ASSERT_TRUE(read.ok()) << read.status().ToString();
        ExpectSame(*read, *MakeSlice(table, slice.slice.value, 2, id));
      }
    }
  }
  EXPECT_GT(committed, 3u);
}

}  // namespace
}  // namespace leat::checkpoint
