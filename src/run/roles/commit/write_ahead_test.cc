#include "run/roles/commit/write_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace leat::roles {
namespace {

using protocol::CutsMade;
using protocol::MakeCut;
using protocol::RoundMade;
using ::testing::ElementsAre;

// Both write down what they are asked for.
class FakeSource final : public stream::Source {
 public:
  explicit FakeSource(std::vector<std::string>* calls) : calls_(calls) {}
  Result<std::vector<stream::PartitionRange>> Ranges() override { return Status(Code::kInternal, "unused"); }
  Status Read(uint32_t, uint64_t, uint64_t, stream::RecordBatch*) override {
    return Status(Code::kInternal, "unused");
  }
  Status Sync(uint32_t partition, uint64_t end) override {
    calls_->push_back("sync " + std::to_string(partition) + " to " + std::to_string(end));
    return status;
  }
  Status status;

 private:
  std::vector<std::string>* calls_;
};

class FakeStore final : public checkpoint::Store {
 public:
  explicit FakeStore(std::vector<std::string>* calls) : calls_(calls) {}
  const std::string& directory() const override { return directory_; }
  uint64_t term() const override { return 1; }
  Status WriteJob(const std::string&) override { return Status(); }
  Result<std::string> ReadJob() const override { return std::string(); }
  Result<std::vector<protocol::JournalRecord>> ReadJournal() const override {
    return std::vector<protocol::JournalRecord>();
  }
  Result<protocol::RecoveredState> Restore(const std::vector<checkpoint::DamagedCheckpoint>&) const override {
    return protocol::RecoveredState();
  }
  Status SetAside(uint64_t) override { return Status(); }
  Status AppendJournal(std::span<const protocol::JournalRecord> records) override {
    calls_->push_back("append " + std::to_string(records.size()));
    return Status();
  }
  Result<protocol::CheckpointOrder> Prepare(uint64_t id, uint64_t) override {
    return protocol::CheckpointOrder{id, ""};
  }
  Status Remove(uint64_t) override { return Status(); }
  Status Commit(const protocol::Manifest&) override { return Status(); }
  Status DropCheckpoints(uint64_t) override { return Status(); }
  Status CompactJournal(const std::vector<protocol::Position>&) override { return Status(); }
  Status End() override { return Status(); }

 private:
  std::string directory_;
  std::vector<std::string>* calls_;
};

class WriteAheadTest : public ::testing::Test {
 protected:
  std::vector<std::string> calls_;
  FakeSource source_{&calls_};
  FakeStore store_{&calls_};
};

TEST_F(WriteAheadTest, TheStreamIsSyncedUpToTheCutsBeforeTheyAreJournaled) {
  const protocol::JournalRecord records[] = {
      CutsMade{{MakeCut({}, 1, {}, {}, 20), MakeCut({}, 0, {}, {}, 5), MakeCut({}, 1, {}, {}, 9)}},
      RoundMade{.lanes = {{MakeCut({}, 3, {}, {}, 8), {}}}}, protocol::IdsReserved{1, 2}};
  ASSERT_TRUE(WriteAhead(source_, store_, records).ok());
  EXPECT_THAT(calls_, ElementsAre("sync 0 to 5", "sync 1 to 20", "sync 3 to 8", "append 3"));
}

TEST_F(WriteAheadTest, TheStreamIsSyncedUpToTheMarksBeforeTheyAreJournaled) {
  const protocol::JournalRecord records[] = {protocol::LabelsMarked{2, {{7, 0, 3}, {30, 1, 9}}},
                                             protocol::LabelsMarked{0, {}},
                                             CutsMade{{MakeCut({}, 2, {}, {}, 20)}}};
  ASSERT_TRUE(WriteAhead(source_, store_, records).ok());
  EXPECT_THAT(calls_, ElementsAre("sync 2 to 30", "append 3"));
}

TEST_F(WriteAheadTest, NothingIsJournaledIfTheStreamCannotBeSynced) {
  source_.status = Status(Code::kUnavailable, "no");
  const protocol::JournalRecord records[] = {CutsMade{{MakeCut({}, 0, {}, {}, 5)}}};
  EXPECT_EQ(WriteAhead(source_, store_, records), source_.status);
  EXPECT_THAT(calls_, ElementsAre("sync 0 to 5"));
}

}  // namespace
}  // namespace leat::roles
