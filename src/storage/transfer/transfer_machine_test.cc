#include "storage/transfer/client.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace leat::transfer {
namespace {

using wire::TransferOp;
using wire::TransferReply;
using wire::TransferRequest;
using Kind = TransferMachine::Step::Kind;

constexpr Duration kSecond = std::chrono::seconds(1);

class TransferMachineTest : public ::testing::Test {
 protected:
  static TransferLimits Limits() {
    TransferLimits limits;
    limits.chunk_bytes = 10;
    limits.window = 2;
    return limits;
  }
  static TransferMachine Read(uint64_t begin, uint64_t end) {
    return TransferMachine({.op = TransferOp::kRead, .name = "f", .begin = begin, .end = end}, Limits(), {});
  }
  static TransferMachine Upload(uint64_t bytes) {
    return TransferMachine(
        {.op = TransferOp::kOpenUpload, .name = "f", .folder = 3, .end = bytes, .checksum = 77}, Limits(),
        {});
  }
  // The next step, which must be a request.
  TransferRequest Sent(TransferMachine& machine) {
    const auto step = machine.Next(now);
    EXPECT_EQ(step.kind, Kind::kSend);
    return step.request;
  }
  void Connect(TransferMachine& machine) {
    ASSERT_EQ(machine.Next(now).kind, Kind::kConnect);
    ASSERT_EQ(machine.Next(now).kind, Kind::kWait);
    machine.OnConnected(now);
  }
  void Answer(TransferMachine& machine, const TransferRequest& request, uint64_t position) {
    const TransferReply reply{.sequence = request.sequence, .position = position};
    const uint64_t payload = request.op == TransferOp::kRead ? request.bytes : 0;
    const auto offset = machine.OnReplyHeader(reply, payload);
    ASSERT_TRUE(offset.ok()) << offset.status().ToString();
    EXPECT_EQ(*offset, request.offset);
    machine.OnReply(now, reply);
  }
  Status Finished(TransferMachine& machine) {
    const auto step = machine.Next(now);
    EXPECT_EQ(step.kind, Kind::kFinish);
    return step.status;
  }
  Time now{};
};

TEST_F(TransferMachineTest, AReadKeepsAWindowOfChunksInFlight) {
  auto machine = Read(5, 30);
  Connect(machine);
  const auto first = Sent(machine), second = Sent(machine);
  EXPECT_EQ(first.offset, 5u);
  EXPECT_EQ(second.offset, 15u);
  EXPECT_EQ(machine.Next(now).kind, Kind::kWait);  // the window is full
  Answer(machine, first, 100);
  const auto third = Sent(machine);
  EXPECT_EQ(third.offset, 25u);
  EXPECT_EQ(third.bytes, 5u);
  Answer(machine, second, 100);
  EXPECT_EQ(machine.Next(now).kind, Kind::kWait);
  Answer(machine, third, 100);
  EXPECT_TRUE(Finished(machine).ok());
  EXPECT_EQ(machine.file_bytes(), 100u);
}

TEST_F(TransferMachineTest, AnEmptyReadAsksForTheSize) {
  auto machine = Read(0, 0);
  Connect(machine);
  const auto request = Sent(machine);
  EXPECT_EQ(request.bytes, 0u);
  EXPECT_EQ(machine.Next(now).kind, Kind::kWait);
  Answer(machine, request, 123);
  EXPECT_TRUE(Finished(machine).ok());
  EXPECT_EQ(machine.file_bytes(), 123u);
}

TEST_F(TransferMachineTest, AReadContinuesAtTheFirstByteWithoutAReply) {
  auto machine = Read(0, 40);
  Connect(machine);
  const auto first = Sent(machine);
  Sent(machine);
  Answer(machine, first, 40);
  machine.OnLost(now, Status(Code::kUnavailable, "gone"));
  EXPECT_EQ(machine.outstanding(), 0u);
  auto step = machine.Next(now);
  ASSERT_EQ(step.kind, Kind::kWait);  // backs off
  now = step.until;
  Connect(machine);
  EXPECT_EQ(Sent(machine).offset, 10u);
  EXPECT_EQ(machine.connections_lost(), 1u);
}

TEST_F(TransferMachineTest, AReadBeyondTheEndOfTheFileFails) {
  auto machine = Read(0, 20);
  Connect(machine);
  const auto first = Sent(machine), second = Sent(machine);
  Answer(machine, first, 15);
  const TransferReply reply{.sequence = second.sequence, .position = 15};
  EXPECT_FALSE(machine.OnReplyHeader(reply, 10).ok());
  ASSERT_TRUE(machine.OnReplyHeader(reply, 5).ok());
  machine.OnReply(now, reply);
  EXPECT_EQ(Finished(machine).code(), Code::kDataLoss);
}

// They may arrive together with the one that ends the transfer.
TEST_F(TransferMachineTest, RepliesAfterTheEndAreNoViolation) {
  auto machine = Read(0, 40);
  Connect(machine);
  const auto first = Sent(machine), second = Sent(machine);
  for (const auto& request : {first, second}) {
    const TransferReply reply{.sequence = request.sequence, .position = 0};
    ASSERT_TRUE(machine.OnReplyHeader(reply, 0).ok());
    machine.OnReply(now, reply);
  }
  EXPECT_EQ(Finished(machine).code(), Code::kDataLoss);
  EXPECT_EQ(machine.outstanding(), 0u);
}

TEST_F(TransferMachineTest, AnUploadOpensWritesAndCommits) {
  auto machine = Upload(25);
  Connect(machine);
  const auto open = Sent(machine);
  EXPECT_EQ(open.op, TransferOp::kOpenUpload);
  EXPECT_EQ(open.bytes, 25u);
  EXPECT_EQ(open.checksum, 77u);
  EXPECT_EQ(open.folder, 3u);
  EXPECT_EQ(machine.Next(now).kind, Kind::kWait);  // until it is known where to begin
  Answer(machine, open, 0);
  const auto first = Sent(machine), second = Sent(machine);
  EXPECT_EQ(second.offset, 10u);
  Answer(machine, first, 10);
  const auto third = Sent(machine);
  EXPECT_EQ(third.bytes, 5u);
  Answer(machine, second, 20);
  EXPECT_EQ(machine.Next(now).kind, Kind::kWait);  // no commit before all chunks are there
  Answer(machine, third, 25);
  const auto commit = Sent(machine);
  EXPECT_EQ(commit.op, TransferOp::kCommit);
  Answer(machine, commit, 25);
  EXPECT_TRUE(Finished(machine).ok());
}

TEST_F(TransferMachineTest, AnUploadContinuesWhereTheOtherSideSays) {
  auto machine = Upload(100);
  Connect(machine);
  Answer(machine, Sent(machine), 0);
  Sent(machine);
  Sent(machine);
  machine.OnLost(now, Status(Code::kUnavailable, "gone"));
  now += kSecond;
  Connect(machine);
  const auto open = Sent(machine);
  EXPECT_EQ(open.op, TransferOp::kOpenUpload);
  Answer(machine, open, 17);
  EXPECT_EQ(Sent(machine).offset, 17u);
}

TEST_F(TransferMachineTest, AnUploadThatTheOtherSideHasForgottenIsOpenedAgain) {
  auto machine = Upload(100);
  Connect(machine);
  Answer(machine, Sent(machine), 0);
  const auto write = Sent(machine);
  const TransferReply refused{.sequence = write.sequence,
                              .status = Status(Code::kFailedPrecondition, "not open")};
  ASSERT_TRUE(machine.OnReplyHeader(refused, 0).ok());
  machine.OnReply(now, refused);
  EXPECT_EQ(machine.Next(now).kind, Kind::kDrop);
  now += kSecond;
  Connect(machine);
  EXPECT_EQ(Sent(machine).op, TransferOp::kOpenUpload);
}

TEST_F(TransferMachineTest, ErrorsOfTheOtherSideThatStayAreFinal) {
  for (const Code code : {Code::kNotFound, Code::kResourceExhausted, Code::kInvalidArgument}) {
    auto machine = Upload(100);
    Connect(machine);
    const auto open = Sent(machine);
    const TransferReply refused{.sequence = open.sequence, .status = Status(code, "no")};
    ASSERT_TRUE(machine.OnReplyHeader(refused, 0).ok());
    machine.OnReply(now, refused);
    EXPECT_EQ(Finished(machine).code(), code);
  }
}

TEST_F(TransferMachineTest, RepliesThatMustNotComeAreRefused) {
  auto machine = Upload(100);
  Connect(machine);
  EXPECT_FALSE(machine.OnReplyHeader(TransferReply{.sequence = 1}, 0).ok());  // nothing is pending
  const auto open = Sent(machine);
  EXPECT_FALSE(machine.OnReplyHeader({.sequence = open.sequence + 1, .status = {}}, 0).ok());
  EXPECT_FALSE(machine.OnReplyHeader({.sequence = open.sequence, .status = {}}, 1).ok());
  EXPECT_FALSE(machine.OnReplyHeader({.sequence = open.sequence, .status = {}, .position = 101}, 0).ok());
  auto read = Read(0, 10);
  Connect(read);
  const auto request = Sent(read);
  EXPECT_FALSE(read.OnReplyHeader({.sequence = request.sequence, .status = {}, .position = 10}, 11).ok());
  EXPECT_FALSE(
      read.OnReplyHeader({.sequence = request.sequence, .status = Status(Code::kNotFound, "no")}, 10).ok());
}

TEST_F(TransferMachineTest, ASilentConnectionIsReplaced) {
  auto machine = Read(0, 10);
  Connect(machine);
  Sent(machine);
  const auto step = machine.Next(now);
  ASSERT_EQ(step.kind, Kind::kWait);
  EXPECT_EQ(step.until, Limits().reply_timeout);
  now = step.until;
  EXPECT_EQ(machine.Next(now).kind, Kind::kDrop);
  EXPECT_EQ(machine.connections_lost(), 1u);
}

TEST_F(TransferMachineTest, FailsAfterItsPatienceWithoutProgress) {
  auto machine = Upload(100);
  Status status;
  int connections = 0;
  for (; status.ok() && connections < 1000;) {
    const auto step = machine.Next(now);
    if (step.kind == Kind::kConnect) {
      ++connections;
      machine.OnLost(now, Status(Code::kUnavailable, "refused by the host"));
    }
    if (step.kind == Kind::kWait) now = step.until;
    if (step.kind == Kind::kFinish) status = step.status;
  }
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(status.message().find("refused by the host"), std::string::npos);
  EXPECT_EQ(now, Limits().patience);
  EXPECT_LT(connections, 50);  // it backs off
}

TEST_F(TransferMachineTest, AWrongTokenIsFinal) {
  auto machine = Read(0, 10);
  ASSERT_EQ(machine.Next(now).kind, Kind::kConnect);
  machine.OnLost(now, Status(Code::kPermissionDenied, "another token"));
  EXPECT_EQ(Finished(machine).code(), Code::kPermissionDenied);
}

// Whatever arrives and however often the connection breaks, the other side gets every byte once and in order.
TEST_F(TransferMachineTest, AnUploadArrivesWholeOverConnectionsThatBreak) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Rng rng(seed);
    now = {};
    const uint64_t bytes = rng() % 200;
    auto machine = Upload(bytes);
    uint64_t arrived = 0;
    std::deque<TransferReply> replies;
    Status status(Code::kInternal, "not finished");
    for (int i = 0; i < 10000; ++i) {
      const auto step = machine.Next(now);
      if (step.kind == Kind::kFinish) {
        status = step.status;
        break;
      }
      if (step.kind == Kind::kConnect) machine.OnConnected(now);
      if (step.kind == Kind::kDrop) replies.clear();
      if (step.kind == Kind::kSend && rng() % 4 != 0) {
        if (step.request.op == TransferOp::kWrite && step.request.offset <= arrived)
          arrived = std::max(arrived, step.request.offset + step.request.bytes);
        if (step.request.op == TransferOp::kCommit) {
          EXPECT_EQ(arrived, bytes);
        }
        replies.push_back({.sequence = step.request.sequence, .status = {}, .position = arrived});
      } else if (step.kind == Kind::kSend) {
        replies.clear();
        machine.OnLost(now, Status(Code::kUnavailable, "cut"));
      } else if (step.kind == Kind::kWait && !replies.empty()) {
        ASSERT_TRUE(machine.OnReplyHeader(replies.front(), 0).ok());
        machine.OnReply(now, replies.front());
        replies.pop_front();
      } else if (step.kind == Kind::kWait) {
        now = step.until;
      }
    }
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.ToString();
    EXPECT_EQ(arrived, bytes);
  }
}

}  // namespace
}  // namespace leat::transfer
