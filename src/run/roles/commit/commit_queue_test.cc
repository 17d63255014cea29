#include "run/roles/commit/commit_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/testing.h"

namespace leat::roles {
namespace {

using protocol::AppendJournal;
using protocol::ConfirmTerm;
using protocol::IdsReserved;
using protocol::PrepareCheckpoint;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CommitQueueTest : public ::testing::Test {
 protected:
  CommitQueueTest()
      : queue_(
            loop_, background_,
            [this](std::span<const protocol::JournalRecord> records) {
              std::unique_lock lock(mutex_);
              wake_.wait(lock, [this] { return open_; });
              std::string text = "write";
              for (const auto& record : records)
                text += " " + std::to_string(std::get<IdsReserved>(record).node);
              writes_.push_back(text);
              return status_;
            },
            [this](protocol::CoordinatorAction& action) {
              const uint64_t id = std::get<PrepareCheckpoint>(action).id;
              executed_.push_back(id);
              if (id == again_) queue_.Push({PrepareCheckpoint{id + 100}});
            },
            [this](const Status& why) { replaced_ = why; }) {}
  ~CommitQueueTest() override { Set(true, Status()); }

  static AppendJournal Record(uint64_t node) { return {IdsReserved{node, 0}}; }
  void Set(bool open, Status status) {
    std::lock_guard lock(mutex_);
    open_ = open;
    status_ = std::move(status);
    wake_.notify_all();
  }
  std::vector<std::string> Writes() {
    std::lock_guard lock(mutex_);
    return writes_;
  }
  bool RunUntil(const std::function<bool()>& condition) {
    const Time until = loop_.Now() + std::chrono::seconds(120);
    while (!condition() && loop_.Now() < until) loop_.RunOnce(std::chrono::milliseconds(1));
    return condition();
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool open_ = true;
  Status status_;
  std::vector<std::string> writes_;
  std::vector<uint64_t> executed_;
  uint64_t again_ = 0;
  Status replaced_;
  net::Loop loop_;
  BackgroundThread background_;
  CommitQueue queue_;
};

TEST_F(CommitQueueTest, ActionsWaitForTheRecordsBeforeThem) {
  queue_.Push({PrepareCheckpoint{1}});
  EXPECT_THAT(executed_, ElementsAre(1)) << "nothing to wait for";
  Set(false, Status());
  queue_.Push({Record(1), PrepareCheckpoint{2}});
  queue_.Push({PrepareCheckpoint{3}});
  queue_.Push({Record(2), Record(3), PrepareCheckpoint{4}});
  for (int i = 0; i < 5; ++i) loop_.RunOnce(std::chrono::milliseconds(1));
  EXPECT_THAT(executed_, ElementsAre(1)) << "not even those without records: they may depend on them";
  Set(true, Status());
  EXPECT_TRUE(RunUntil([&] { return executed_.size() == 4; }));
  EXPECT_THAT(executed_, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Writes(), ElementsAre("write 1", "write 2 3"));
}

TEST_F(CommitQueueTest, ActionsOfActionsComeAfterThoseAlreadyThere) {
  again_ = 1;
  queue_.Push({PrepareCheckpoint{1}, PrepareCheckpoint{2}});
  EXPECT_THAT(executed_, ElementsAre(1, 2, 101));
}

TEST_F(CommitQueueTest, AConfirmationWaitsForAWriteWithoutRecords) {
  Set(false, Status());
  queue_.Push({ConfirmTerm{}, PrepareCheckpoint{1}});
  queue_.Push({ConfirmTerm{}});  // the write to come says as much
  for (int i = 0; i < 5; ++i) loop_.RunOnce(std::chrono::milliseconds(1));
  EXPECT_THAT(executed_, IsEmpty());
  Set(true, Status());
  EXPECT_TRUE(RunUntil([&] { return executed_.size() == 1; }));
  EXPECT_THAT(Writes(), ElementsAre("write"));
}

TEST_F(CommitQueueTest, NothingIsDoneOnceAnotherCoordinatorHasTakenOver) {
  Set(true, Status(Code::kStale, "sealed"));
  queue_.Push({Record(1), PrepareCheckpoint{1}});
  queue_.Push({PrepareCheckpoint{2}});
  EXPECT_TRUE(RunUntil([&] { return !replaced_.ok(); }));
  EXPECT_EQ(replaced_, Status(Code::kStale, "sealed"));
  Set(true, Status());
  queue_.Push({Record(2), PrepareCheckpoint{3}});
  for (int i = 0; i < 5; ++i) loop_.RunOnce(std::chrono::milliseconds(1));
  EXPECT_THAT(executed_, IsEmpty());
  EXPECT_THAT(Writes(), ElementsAre("write 1"));
}

TEST_F(CommitQueueTest, AFailedWriteIsRepeatedWithAllThatWaits) {
  Set(true, Status(Code::kResourceExhausted, "no space"));
  queue_.Push({Record(1), PrepareCheckpoint{1}});
  ASSERT_TRUE(RunUntil([&] { return Writes().size() >= 2; }));
  EXPECT_EQ(queue_.Stalled().message(), "no space");
  queue_.Push({Record(2), PrepareCheckpoint{2}});
  EXPECT_THAT(executed_, IsEmpty());
  Set(true, Status());
  ASSERT_TRUE(RunUntil([&] { return executed_.size() == 2; }));
  EXPECT_THAT(executed_, ElementsAre(1, 2));
  EXPECT_EQ(Writes().back(), "write 1 2");
  EXPECT_TRUE(queue_.Stalled().ok());
}

TEST_F(CommitQueueTest, AWriteThatHangsCountsAsStalled) {
  Set(false, Status());
  queue_.Push({Record(1), PrepareCheckpoint{1}});
  EXPECT_TRUE(queue_.Stalled().ok());
  ASSERT_TRUE(RunUntil([&] { return !queue_.Stalled().ok(); }));
  EXPECT_THAT(queue_.Stalled().message(), ::testing::MatchesRegex("a write has taken [0-9]+ s so far"));
  Set(true, Status());
  ASSERT_TRUE(RunUntil([&] { return executed_.size() == 1; }));
  EXPECT_TRUE(queue_.Stalled().ok());
}

TEST_F(CommitQueueTest, AbandonedRecordsHoldUpNothing) {
  Set(true, Status(Code::kResourceExhausted, "no space"));
  queue_.Push({Record(1), PrepareCheckpoint{1}});
  ASSERT_TRUE(RunUntil([&] { return !queue_.Stalled().ok(); }));
  queue_.Abandon();
  queue_.Push({Record(2), PrepareCheckpoint{2}});
  EXPECT_THAT(executed_, ElementsAre(1, 2));
  EXPECT_TRUE(queue_.Stalled().ok());
}

// With a standby, which the test plays: positions are numbers of writes.
class AgreementTest : public ::testing::Test {
 protected:
  AgreementTest()
      : queue_(
            loop_, background_, [](std::span<const protocol::JournalRecord>) { return Status(); },
            [this](protocol::CoordinatorAction& action) {
              if (const auto* reply = std::get_if<protocol::Reply>(&action)) {
                answered_.push_back(reply->call);
              } else {
                executed_.push_back(std::get<PrepareCheckpoint>(action).id);
              }
            },
            [](const Status&) {},
            {.on_written =
                 [this](std::span<const protocol::JournalRecord> records) {
                   written_.push_back(records.size());
                   return written_.size();
                 },
             .agreed = [this] { return agreed_; }}) {}

  bool RunUntil(const std::function<bool()>& condition) {
    const Time until = loop_.Now() + std::chrono::seconds(120);
    while (!condition() && loop_.Now() < until) loop_.RunOnce(std::chrono::milliseconds(1));
    return condition();
  }

  std::vector<size_t> written_;
  uint64_t agreed_ = 0;
  std::vector<uint64_t> executed_, answered_;
  net::Loop loop_;
  BackgroundThread background_;
  CommitQueue queue_;
};

TEST_F(AgreementTest, WhatIsWrittenWaitsUntilItIsAgreed) {
  queue_.Push({PrepareCheckpoint{1}});
  EXPECT_THAT(executed_, ElementsAre(1)) << "it depends on nothing";
  queue_.Push({AppendJournal{IdsReserved{1, 0}}, PrepareCheckpoint{2}});
  ASSERT_TRUE(RunUntil([&] { return written_.size() == 1; }));
  // The next write does not wait for that.
  queue_.Push({PrepareCheckpoint{3}});
  queue_.Push({ConfirmTerm{}, PrepareCheckpoint{4}});
  ASSERT_TRUE(RunUntil([&] { return written_.size() == 2; }));
  EXPECT_THAT(written_, ElementsAre(1, 0));
  EXPECT_THAT(executed_, ElementsAre(1));
  EXPECT_FALSE(queue_.empty());
  agreed_ = 1;
  queue_.Resume();
  EXPECT_THAT(executed_, ElementsAre(1, 2, 3));
  agreed_ = 2;
  queue_.Resume();
  EXPECT_THAT(executed_, ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(AgreementTest, AStandbyThatIsSilentStallsTheQueue) {
  queue_.Push({AppendJournal{IdsReserved{1, 0}}, PrepareCheckpoint{1}});
  ASSERT_TRUE(RunUntil([&] { return !queue_.Stalled().ok(); }));
  EXPECT_EQ(queue_.Stalled().message(), "it waits for a standby");
  agreed_ = 1;
  queue_.Resume();
  EXPECT_TRUE(queue_.Stalled().ok());
  EXPECT_THAT(executed_, ElementsAre(1));
}

TEST_F(AgreementTest, NoMemberIsToldWhatWasAbandoned) {
  protocol::WorkerHeartbeatReply stop;
  stop.stop = true;
  queue_.Push({AppendJournal{IdsReserved{1, 0}}, protocol::Reply{1, protocol::WorkerHeartbeatReply()},
               protocol::Reply{2, stop}, protocol::Reply{3, protocol::ServerHeartbeatReply()},
               protocol::Reply{4, protocol::AdminReply()}, PrepareCheckpoint{1}});
  ASSERT_TRUE(RunUntil([&] { return written_.size() == 1; }));
  EXPECT_THAT(answered_, IsEmpty());
  queue_.Abandon();
  EXPECT_THAT(answered_, ElementsAre(2, 4));
  EXPECT_THAT(executed_, ElementsAre(1));
}

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

using protocol::ControlReply;
using protocol::ServerHeartbeat;
using protocol::ServerHeartbeatReply;
using protocol::WorkerHeartbeat;
using protocol::WorkerHeartbeatReply;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

ServerHeartbeat HeartbeatOf(uint64_t node) {
  ServerHeartbeat heartbeat;
  heartbeat.node = NodeId(node);
  return heartbeat;
}

TEST(StalledRepliesTest, AWorkerKeepsWhatItHas) {
  WorkerHeartbeatReply reply{.term = 3};
  reply.leases.resize(2);
  reply.revoked = {7};
  ControlReply stripped = reply;
  EXPECT_TRUE(StalledReplies().Strip(WorkerHeartbeat(), true, true, &stripped));
  const auto& told = std::get<WorkerHeartbeatReply>(stripped);
  EXPECT_EQ(told.term, 3u);
  EXPECT_THAT(told.leases, IsEmpty());
  EXPECT_THAT(told.revoked, ElementsAre(7));
}

TEST(StalledRepliesTest, AServerIsToldWhatItWasToldBefore) {
  StalledReplies replies;
  ControlReply reply = ServerHeartbeatReply{.term = 3};
  EXPECT_FALSE(replies.Strip(HeartbeatOf(5), true, true, &reply)) << "it has not been told its slices";
  replies.OnServer(1, NodeId(5));
  replies.OnReply(1, ServerHeartbeatReply{.term = 2});
  EXPECT_TRUE(replies.Strip(HeartbeatOf(5), true, true, &reply));
  EXPECT_EQ(std::get<ServerHeartbeatReply>(reply).term, 2u);
  replies.OnView({});
  EXPECT_FALSE(replies.Strip(HeartbeatOf(5), true, true, &reply)) << "it is no member any more";
}

TEST(StalledRepliesTest, AServerThatKnowsAnotherCoordinatorIsNotHeldToItsSlices) {
  ControlReply reply = ServerHeartbeatReply{.term = 3};
  EXPECT_TRUE(StalledReplies().Strip(HeartbeatOf(5), false, true, &reply));
  EXPECT_EQ(std::get<ServerHeartbeatReply>(reply).term, 3u);
}

TEST(StalledRepliesTest, NobodyIsSentAwayByACoordinatorThatMayHaveBeenReplaced) {
  ControlReply reply = WorkerHeartbeatReply{.stop = true};
  EXPECT_FALSE(StalledReplies().Strip(WorkerHeartbeat(), true, false, &reply));
  EXPECT_TRUE(StalledReplies().Strip(WorkerHeartbeat(), true, true, &reply));
  EXPECT_TRUE(std::get<WorkerHeartbeatReply>(reply).stop);
}

TEST(StalledRepliesTest, OtherRepliesWait) {
  ControlReply reply = protocol::JoinReply();
  EXPECT_FALSE(StalledReplies().Strip(protocol::JoinRequest(), true, true, &reply));
}

TEST(OpenCallsTest, IsAnsweredOnceAndEarlyAtMost) {
  OpenCalls calls(protocol::MakeTerm(9, 2));
  int answers = 0;
  const uint64_t call = calls.Open(WorkerHeartbeat(), [&](const ControlReply&) { ++answers; });
  calls.AnswerEarly(call, WorkerHeartbeatReply());
  EXPECT_EQ(answers, 1);
  const auto closed = calls.Close(call);
  ASSERT_TRUE(closed);
  closed->answer(WorkerHeartbeatReply());
  EXPECT_EQ(answers, 1);
  EXPECT_FALSE(calls.Close(call));
}

TEST(OpenCallsTest, KnowsMembersOfAFormerCoordinator) {
  OpenCalls calls(protocol::MakeTerm(9, 2));
  const auto former = [&](uint64_t term) {
    WorkerHeartbeat heartbeat;
    heartbeat.term = term;
    return calls.IsFormer(calls.Open(heartbeat, nullptr));
  };
  EXPECT_TRUE(former(protocol::MakeTerm(9, 1)));
  EXPECT_FALSE(former(protocol::MakeTerm(9, 2)));
  EXPECT_FALSE(former(protocol::MakeTerm(8, 1))) << "another run";
  EXPECT_FALSE(former(0)) << "the member does not know";
}

}  // namespace

}  // namespace leat::roles
