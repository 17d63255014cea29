
#include <fcntl.h>

#include <filesystem>
#include <span>
#include <string>

#include "storage/checkpoint/file.h"
#include "storage/checkpoint/journal.h"
#include "storage/checkpoint/store.h"
#include "storage/checkpoint/testing.h"

namespace leat::checkpoint {
namespace {

using protocol::IdsReserved;
using protocol::JournalRecord;

constexpr std::span<const JournalRecord> kNothing;

std::vector<uint64_t> Ids(const std::vector<JournalRecord>& records) {
  std::vector<uint64_t> ids;
  for (const JournalRecord& record : records) ids.push_back(std::get<IdsReserved>(record).node);
  return ids;
}

Term Claim(const TempDir& dir) {
  auto term = ClaimTerm(dir.path());
  EXPECT_TRUE(term.ok()) << term.status().ToString();
  return term.ok() ? *term : Term();
}

// As a coordinator that has started.
Journal Begin(const Term& term) {
  auto journal = Journal::Create(term.directory, term.former.value_or(std::vector<JournalRecord>()));
  EXPECT_TRUE(journal.ok()) << journal.status().ToString();
  return std::move(*journal);
}

void AppendRaw(const std::string& path, ByteView bytes) {
  auto file = File::Open(path, O_WRONLY | O_APPEND);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Write(bytes).ok());
}

TEST(Terms, ANewCoordinatorHasARecordOrTheFormerOneKnowsThatItDoesNotCount) {
  const TempDir dir;
  const Term first = Claim(dir);
  EXPECT_EQ(first.number, 1u);
  EXPECT_FALSE(first.former);
  Journal former = Begin(first);
  ASSERT_TRUE(former.Append(IdsReserved{1, 1}).ok());
  ASSERT_TRUE(former.Append(kNothing).ok());
  ASSERT_TRUE(former.Append(IdsReserved{2, 2}).ok());

  const Term second = Claim(dir);
  EXPECT_EQ(second.number, 2u);
  EXPECT_EQ(Ids(*second.former), (std::vector<uint64_t>{1, 2}));
  EXPECT_EQ(former.Append(kNothing).code(), Code::kStale);
  EXPECT_EQ(former.Append(IdsReserved{3, 3}).code(), Code::kStale);
  EXPECT_EQ(former.Append(IdsReserved{4, 4}).code(), Code::kStale) << "nor later";
  EXPECT_EQ(former.Rewrite({IdsReserved{5, 5}}).code(), Code::kStale);

  Journal journal = Begin(second);
  ASSERT_TRUE(journal.Append(IdsReserved{6, 6}).ok());
  EXPECT_EQ(Ids(*journal.Read()), (std::vector<uint64_t>{1, 2, 6}));
  EXPECT_EQ(former.Append(kNothing).code(), Code::kStale);
  RemoveFormerTerms(dir.path(), second.number);
  EXPECT_EQ(former.Append(IdsReserved{7, 7}).code(), Code::kStale) << "its files are gone";
  EXPECT_EQ(Ids(*Claim(dir).former), (std::vector<uint64_t>{1, 2, 6}));
}

// It had written, and not read back yet.
TEST(Terms, ARecordBehindTheSealDoesNotCount) {
  const TempDir dir;
  const Term first = Claim(dir);
  Journal former = Begin(first);
  ASSERT_TRUE(former.Append(IdsReserved{1, 1}).ok());
  const std::string path = first.directory + ".over/journal";
  Claim(dir);
  const auto sealed = std::filesystem::file_size(path);
  EXPECT_EQ(former.Append(IdsReserved{2, 2}).code(), Code::kStale);
  EXPECT_GT(std::filesystem::file_size(path), sealed) << "it is in the file";
  const auto contents = ReadJournal(first.directory + ".over");
  ASSERT_TRUE(contents.ok()) << contents.status().ToString();
  EXPECT_TRUE(contents->sealed);
  EXPECT_EQ(Ids(contents->records), std::vector<uint64_t>{1});
  EXPECT_EQ(Ids(*Claim(dir).former), std::vector<uint64_t>{1}) << "sealed a second time";
}

TEST(Terms, ARecordInTheMiddleOfWhichTheJournalIsSealedDoesNotCount) {
  const Bytes record =
      EncodeRecord(IdsReserved{2, 2}, JournalHeader().size() + EncodeRecord(IdsReserved{1, 1}, 16).size());
  for (size_t size = 0; size <= record.size(); ++size) {
    const TempDir dir;
    const Term first = Claim(dir);
    Journal former = Begin(first);
    ASSERT_TRUE(former.Append(IdsReserved{1, 1}).ok());
    AppendRaw(first.directory + "/journal", ByteView(record).first(size));
    const Term second = Claim(dir);
    AppendRaw(first.directory + ".over/journal", ByteView(record).subspan(size));
    const std::vector<uint64_t> expected =
        size == record.size() ? std::vector<uint64_t>{1, 2} : std::vector<uint64_t>{1};
    ASSERT_TRUE(second.former) << size;
    EXPECT_EQ(Ids(*second.former), expected) << size << " of " << record.size() << " bytes";
    EXPECT_EQ(Ids(*Claim(dir).former), expected);
  }
}

TEST(Terms, ACoordinatorThatDiesBeforeItHasAJournalLeavesThatOfTheOneBefore) {
  const TempDir dir;
  ASSERT_TRUE(Begin(Claim(dir)).Append(IdsReserved{1, 1}).ok());
  const Term dies = Claim(dir);
  const Term third = Claim(dir);
  EXPECT_EQ(third.number, 3u);
  EXPECT_EQ(Ids(*third.former), std::vector<uint64_t>{1});
  EXPECT_FALSE(Journal::Create(dies.directory, *dies.former).ok()) << "it was only paused";
  ASSERT_TRUE(Begin(third).Append(IdsReserved{2, 2}).ok());
  EXPECT_EQ(*NewestTerm(dir.path()), third.directory);
  EXPECT_EQ(Ids(*Claim(dir).former), (std::vector<uint64_t>{1, 2}));
}

TEST(Terms, WhoWaitsToTakeOverFindsOutThatTheCoordinatorHasEnded) {
  const TempDir dir;
  EXPECT_EQ(NewestClaimed(dir.path()).status().code(), Code::kNotFound);
  const auto expect = [&dir](uint64_t term, bool ended) {
    const auto claimed = NewestClaimed(dir.path());
    ASSERT_TRUE(claimed.ok()) << claimed.status().ToString();
    EXPECT_EQ(claimed->term, term);
    EXPECT_EQ(claimed->ended, ended);
  };
  const Term first = Claim(dir);
  expect(1, false);
  ASSERT_TRUE(Begin(first).Append(IdsReserved{1, 1}).ok());
  expect(1, false);
  const Term second = Claim(dir);
  expect(2, false);  // the first journal is sealed, but by another coordinator
  Begin(second);
  RemoveFormerTerms(dir.path(), 2);
  expect(2, false);
  ASSERT_TRUE(SealJournal(second.directory, 2).ok());
  expect(2, true);
  EXPECT_EQ(Ids(*Claim(dir).former), std::vector<uint64_t>{1}) << "it can be resumed";
  expect(3, false);
}

TEST(Terms, WhoIsOvertakenWhileItTakesOverFindsThatOut) {
  const TempDir dir;
  ASSERT_TRUE(Begin(Claim(dir)).Append(IdsReserved{1, 1}).ok());
  // The coordinator of term 2 has made its directory, and loses the job to term 3 before it goes on.
  std::filesystem::create_directory(dir / "term-000002");
  Begin(Claim(dir));
  RemoveFormerTerms(dir.path(), 3);
  EXPECT_EQ(UnlessReplaced(dir / "term-000002", Status()).code(), Code::kStale);
  EXPECT_TRUE(UnlessReplaced(dir / "term-000003", Status()).ok());
}

TEST(Terms, DamageInASealedJournalIsNoticed) {
  const TempDir dir;
  const Term first = Claim(dir);
  {
    Journal former = Begin(first);
    for (uint64_t i = 1; i < 20; ++i) ASSERT_TRUE(former.Append(IdsReserved{i, i}).ok());
  }
  const std::string path = first.directory + "/journal";
  std::string text = ReadAll(path);
  text[text.size() / 2] ^= 1;
  WriteText(path, text);
  EXPECT_EQ(ClaimTerm(dir.path()).status().code(), Code::kDataLoss);
  EXPECT_EQ(ClaimTerm(dir.path()).status().code(), Code::kDataLoss) << "also the next time";
}

TEST(Terms, AStoreThatWasTakenOverChangesNothing) {
  const TempDir dir;
  auto former = Store::Open(dir / "job", false);
  ASSERT_TRUE(former.ok());
  ASSERT_TRUE((*former)->WriteJob("job: 1\n").ok());
  protocol::Manifest manifest;
  for (const uint64_t id : {1, 2}) {
    ASSERT_TRUE((*former)->Prepare(id, 0).ok());
    manifest.id = id;
    manifest.directory = "checkpoint-00000" + std::to_string(id);
    if (id > 1) continue;
    ASSERT_TRUE((*former)->Commit(manifest).ok());
  }
  EXPECT_EQ(Store::Open(dir / "job", true).status().code(), Code::kFailedPrecondition) << "it is in use";
  auto store = Store::Open(dir / "job", true, true);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_EQ(protocol::NumberOf((*former)->term()), 1u);
  EXPECT_EQ(protocol::NumberOf((*store)->term()), 2u);
  EXPECT_TRUE(protocol::SameRun((*former)->term(), (*store)->term()));
  EXPECT_FALSE(protocol::SameRun((*Store::Open(dir / "other", false))->term(), (*store)->term()));
  EXPECT_EQ((*former)->AppendJournal(kNothing).code(), Code::kStale);
  EXPECT_EQ((*former)->AppendJournal(IdsReserved{1, 1}).code(), Code::kStale);
  EXPECT_EQ((*former)->Commit(manifest).code(), Code::kStale);
  std::filesystem::create_directory(dir / "job/checkpoint-000002");  // as if it had been prepared right now
  EXPECT_EQ((*former)->Commit(manifest).code(), Code::kStale);
  EXPECT_EQ((*former)->Remove(1).code(), Code::kStale);
  EXPECT_EQ((*former)->Drop(2, {}).code(), Code::kStale);
  EXPECT_EQ((*former)->Prepare(3, 0).status().code(), Code::kStale);
  const auto restored = (*store)->Restore();
  ASSERT_TRUE(restored.ok());
  ASSERT_TRUE(restored->manifest);
  EXPECT_EQ(restored->manifest->id, 1u);
  EXPECT_EQ(restored->journal.size(), 0u);
  manifest.id = 4;
  manifest.directory = "checkpoint-000004";
  ASSERT_TRUE((*store)->Prepare(4, 0).ok());
  EXPECT_TRUE((*store)->Commit(manifest).ok());
  EXPECT_TRUE((*store)->Drop(4, {}).ok());
  EXPECT_TRUE((*store)->End().ok());
  EXPECT_TRUE(NewestClaimed(dir / "job")->ended);
}

}  // namespace
}  // namespace leat::checkpoint
