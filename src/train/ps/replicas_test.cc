// Pushes are forwarded to another server over a real transport. The coordinator is played by the test.
#include <cstring>

#include "net/frames/frame.h"
#include "train/ps/testing.h"

namespace leat::ps {
namespace {

using namespace testing;  // NOLINT: the helpers of this folder
using protocol::SliceOutcome;

constexpr uint64_t kEpoch = 5;

Bytes BytesOf(const std::vector<float>& numbers) {
  const ByteView bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

class Worker final : public Peer {
 public:
  const std::vector<protocol::PushReply>& replies() const { return replies_; }

  net::Places OnHeader(net::Connection&, uint8_t type, ByteView header, uint64_t payload_bytes) override {
    if (type != wire::FrameType::kPushReply) return net::Spans();
    LEAT_ASSIGN_OR_RETURN(const auto reply, fields::Decode<protocol::PushReply>(header, "push reply"));
    replies_.push_back(reply);
    values_.resize(payload_bytes);
    return net::Spans{std::span(values_)};
  }

 private:
  std::vector<protocol::PushReply> replies_;
  Bytes values_;
};

class ReplicasTest : public TwoServersTest {
 protected:
  ReplicasTest() {
    here.shell.SendMovesBy(*here_transport, [] {});
    there.shell.SendMovesBy(*there_transport, [this] { ++arrived; });
    for (const SliceId slice : AllSlices(table)) all.push_back({slice, kIncarnation});
  }

  protocol::ServerHeartbeatReply Here(bool replicated) const {
    auto reply = Orders(kServer, AllSlices(table));
    if (replicated)
      reply.replicated = {{.epoch = kEpoch, .server = kOther, .address = there.address(), .slices = all}};
    return reply;
  }
  // All slices get replicas on the other server.
  void Copy() {
    auto ordered = Here(false);
    ordered.moves = {{.id = kEpoch,
                      .to = kOther,
                      .address = there.address(),
                      .slices = all,
                      .version = 0,
                      .kind = protocol::MoveOrder::Kind::kCopy}};
    here.shell.OnHeartbeatReply(ordered);
    ASSERT_TRUE(Run([&] { return arrived > 0; }));
    auto made = Orders(kOther, {});
    made.replicas = {{.epoch = kEpoch, .server = kServer, .address = "", .slices = all}};
    there.shell.OnHeartbeatReply(made);
    ASSERT_TRUE(there.shell.machine().HasReplica(SliceId(0)));
    here.shell.OnHeartbeatReply(Here(true));
  }
  void Push(Worker* worker, uint32_t batch) {
    auto request = Batch(batch, AllSlices(table));
    request.sequence = batch + 1;
    uint64_t elements = 0;
    for (const auto& slice : table.slices) elements += slice.elements();
    worker->Send(wire::FrameType::kPush, fields::Encode(request),
                 BytesOf(std::vector<float>(elements, 1.0f)));
  }

  std::vector<protocol::SliceIncarnation> all;
  int arrived = 0;
};

INSTANTIATE_TEST_SUITE_P(Transports, ReplicasTest, TransportKinds(), NameOf);

TEST_P(ReplicasTest, APushIsAppliedOnBothServersAndThenAnswered) {
  Copy();
  const auto client = Make(server_loop);
  Worker one, two;
  one.Connect(*client, here.address());
  two.Connect(*client, here.address());
  ASSERT_TRUE(Run([&] { return one.connected() && two.connected(); }));
  for (uint32_t batch = 0; batch < 20; ++batch) Push(batch % 2 == 0 ? &one : &two, batch);
  // A second push of a worker ends the wait for the first, whose outcome may then be unknown.
  ASSERT_TRUE(Run([&] { return one.replies().size() + two.replies().size() == 20; }));
  for (const Worker* worker : {&one, &two}) {
    for (const auto& slice : worker->replies().back().slices)
      EXPECT_EQ(slice.outcome, SliceOutcome::kApplied);
  }
  EXPECT_GT(here.shell.bytes_forwarded(), 0u);

  auto promoted = Orders(kOther, {});
  for (const SliceId slice : AllSlices(table))
    promoted.orders.push_back({slice, kIncarnation, "", "", 0, kEpoch});
  there.shell.OnHeartbeatReply(promoted);
  for (const SliceId slice : AllSlices(table)) {
    const auto* now = there.shell.machine().Find(slice);
    ASSERT_NE(now, nullptr);
    EXPECT_TRUE(All(now->values(), kInitial - 20));
    EXPECT_EQ(now->version, 20u);
    EXPECT_EQ(now->ledger, here.shell.machine().Find(slice)->ledger);
  }
}

TEST_P(ReplicasTest, AReplicaThatCannotBeReachedIsReportedAndPushesWait) {
  Copy();
  const auto client = Make(server_loop);
  Worker worker;
  worker.Connect(*client, here.address());
  ASSERT_TRUE(Run([&] { return worker.connected(); }));
  there.listener.reset();
  Push(&worker, 0);
  ASSERT_TRUE(Run([&] { return !here.shell.machine().MakeHeartbeat().lost_replicas.empty(); }));
  Settle();
  EXPECT_TRUE(worker.replies().empty());
  here.shell.OnHeartbeatReply(Here(false));
  ASSERT_TRUE(Run([&] { return worker.replies().size() == 1; }));
  EXPECT_EQ(worker.replies()[0].slices[0].outcome, SliceOutcome::kApplied);
}

TEST_P(ReplicasTest, WrongForwardsEndTheConnection) {
  Copy();
  const auto client = Make(server_loop);
  protocol::ForwardRequest request;
  request.from = kServer;
  request.link = 9;
  request.number = 1;
  request.push = Batch(0, {SliceId(0)});
  request.epochs = {kEpoch};
  request.versions = {1};
  const std::vector<float> good(table.slices[0].elements(), 1.0f);
  const auto ends = [&](const protocol::ForwardRequest& wrong, const std::vector<float>& payload) {
    Peer peer;
    peer.Connect(*client, there.address());
    EXPECT_TRUE(Run([&] { return peer.connected(); }));
    peer.Send(wire::FrameType::kForward, fields::Encode(wrong), BytesOf(payload));
    return Run([&] { return !peer.closed().ok(); });
  };
  EXPECT_TRUE(ends(request, {}));
  auto wrong = request;
  wrong.push.slices[0].slice = SliceId(4711);
  EXPECT_TRUE(ends(wrong, good));
  wrong = request;
  wrong.push.run = 4711;
  EXPECT_TRUE(ends(wrong, good));
}

}  // namespace
}  // namespace leat::ps
