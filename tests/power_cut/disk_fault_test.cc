// Syncs and writes that fail: acknowledged data stays, and the file of a failed sync is not trusted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>

#include "base/testing.h"
#include "disk_recorder.h"
#include "storage/checkpoint/journal.h"
#include "stream/log/log.h"

namespace leat::power_cut {
namespace {

using checkpoint::Journal;
using protocol::IdsReserved;
using ::testing::ElementsAre;
using What = FailingFiles::What;

std::vector<uint64_t> Nodes(const std::string& directory) {
  std::vector<uint64_t> nodes;
  const auto contents = checkpoint::ReadJournal(directory);
  EXPECT_TRUE(contents.ok()) << contents.status().ToString();
  if (!contents.ok()) return nodes;
  for (const auto& record : contents->records) nodes.push_back(std::get<IdsReserved>(record).node);
  return nodes;
}
ino_t InodeOf(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

TEST(DiskFault, AfterAFailedSyncTheJournalGoesToANewFile) {
  const TempDir directory;
  auto journal = Journal::Create(directory.path());
  ASSERT_TRUE(journal.ok());
  ASSERT_TRUE(journal->Append(IdsReserved{1, 1}).ok());
  const ino_t file = InodeOf(directory / "journal");
  {
    const FailingFiles fails(What::kSync, "/journal", EIO);
    EXPECT_FALSE(journal->Append(IdsReserved{2, 2}).ok());
    EXPECT_FALSE(journal->Append(IdsReserved{2, 2}).ok()) << "nor can a new file be synced";
  }
  EXPECT_EQ(InodeOf(directory / "journal"), file);
  ASSERT_TRUE(journal->Append(IdsReserved{3, 3}).ok());
  EXPECT_NE(InodeOf(directory / "journal"), file);
  EXPECT_THAT(Nodes(directory.path()), ElementsAre(1, 3));
  const ino_t fresh = InodeOf(directory / "journal");
  ASSERT_TRUE(journal->Append(IdsReserved{4, 4}).ok());
  EXPECT_THAT(Nodes(directory.path()), ElementsAre(1, 3, 4));
  EXPECT_EQ(InodeOf(directory / "journal"), fresh) << "the new file is trusted";
  EXPECT_THAT(std::filesystem::exists(directory / "journal.tmp"), false);
}

TEST(DiskFault, ANewFileWhoseNameIsNotSyncedIsWrittenAgain) {
  const TempDir directory;
  auto journal = Journal::Create(directory.path());
  ASSERT_TRUE(journal->Append(IdsReserved{1, 1}).ok());
  {
    const FailingFiles fails(What::kSync, "/journal", EIO);
    EXPECT_FALSE(journal->Append(IdsReserved{2, 2}).ok());
  }
  {
    // The directory alone: its path ends where the file's goes on.
    const std::string name = std::filesystem::path(directory.path()).filename();
    const FailingFiles fails(What::kSync, name + "$", EIO);
    EXPECT_FALSE(journal->Append(IdsReserved{3, 3}).ok());
  }
  ASSERT_TRUE(journal->Append(IdsReserved{3, 3}).ok());
  EXPECT_THAT(Nodes(directory.path()), ElementsAre(1, 3)) << "once";
}

TEST(DiskFault, APartlyWrittenRecordThatCannotBeCutOffIsLeftBehindInTheOldFile) {
  const TempDir directory;
  auto journal = Journal::Create(directory.path());
  ASSERT_TRUE(journal->Append(IdsReserved{1, 1}).ok());
  {
    const FailingFiles fails(What::kWrite, "/journal", ENOSPC);
    EXPECT_EQ(journal->Append(IdsReserved{2, 2}).code(), Code::kResourceExhausted);
    EXPECT_EQ(journal->Append(IdsReserved{2, 2}).code(), Code::kResourceExhausted);
  }
  ASSERT_TRUE(journal->Append(IdsReserved{3, 3}).ok());
  EXPECT_THAT(Nodes(directory.path()), ElementsAre(1, 3));
}

TEST(DiskFault, AfterAFailedSyncTheLogIsCopiedIntoItsDatabase) {
  const TempDir directory;
  ASSERT_TRUE(stream::EmbeddedLog::Create(directory.path(), "t", {.partitions = 1}).ok());
  auto writer = stream::LogWriter::Open(directory.path(), "t", {.min_free_bytes = 1});
  auto source = stream::EmbeddedLog::OpenSource(directory.path(), "t");
  const std::vector<std::string_view> records(5, "a record");
  ASSERT_TRUE((*writer)->Append(0, records).ok());
  ASSERT_TRUE((*source)->Sync(0, 5).ok());
  ASSERT_TRUE((*writer)->Append(0, records).ok());
  {
    const FailingFiles fails(What::kSync, "0000.log-wal", EIO);
    EXPECT_EQ((*source)->Sync(0, 7).code(), Code::kUnavailable);
    EXPECT_TRUE((*source)->Sync(0, 5).ok()) << "synced before";
    EXPECT_FALSE((*source)->Sync(0, 7).ok()) << "a copy is synced as well";
  }
  const std::string file = directory / "t/0000.log";
  const auto before = ReadAll(file);
  {
    const FailingFiles fails(What::kSync, "t/0000.log$", EIO);
    EXPECT_FALSE((*source)->Sync(0, 7).ok());
  }
  ASSERT_TRUE((*source)->Sync(0, 10).ok());
  EXPECT_NE(ReadAll(file), before);
  stream::RecordBatch batch;
  ASSERT_TRUE((*source)->Read(0, 0, 10, &batch).ok());
}

}  // namespace
}  // namespace leat::power_cut
