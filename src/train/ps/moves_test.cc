// A slice moves between two servers over a real transport. The coordinator is played by the test.
#include <cstring>

#include "net/frames/frame.h"
#include "net/frames/messages.h"
#include "train/ps/testing.h"

namespace leat::ps {
namespace {

using namespace testing;  // NOLINT: the helpers of this folder
using protocol::MoveReport;
using protocol::SliceOutcome;

constexpr uint64_t kMove = 5;

class MovesTest : public TwoServersTest {
 protected:
  MovesTest() {
    here.shell.SendMovesBy(*here_transport, [this] { ++here_urgent; });
    there.shell.SendMovesBy(*there_transport, [this] { ++there_urgent; });
  }

  static bool Reports(ServerShell& shell, MoveReport::Stage stage) {
    for (const MoveReport& report : shell.machine().MakeHeartbeat().moves) {
      if (report.id == kMove && report.stage == stage) return true;
    }
    return false;
  }
  protocol::ServerHeartbeatReply Ordered() const {
    protocol::MoveOrder order{kMove, kOther, there.address(), {}, 0};
    for (const SliceId slice : moving) order.slices.push_back({slice, kIncarnation});
    auto reply = Orders(kServer, AllSlices(table));
    reply.moves = {order};
    return reply;
  }
  void Begin() {
    here.shell.OnHeartbeatReply(Ordered());
    ASSERT_TRUE(Run([&] { return Reports(here.shell, MoveReport::Stage::kFrozen); }));
  }
  // Applies a batch to all slices of a server, without a connection.
  void Apply(ServerShell& shell, uint32_t batch) {
    const auto request = Batch(batch, AllSlices(table));
    std::vector<uint64_t> elements;
    ASSERT_TRUE(shell.machine().Begin(request, &elements).ok());
    for (size_t i = 0; i < request.slices.size(); ++i)
      shell.machine().Apply(request, i, std::vector<float>(elements[i], 1.0f));
  }

  const std::vector<SliceId> moving = {SliceId(1), SliceId(3), SliceId(4)};
  int here_urgent = 0, there_urgent = 0;
};

INSTANTIATE_TEST_SUITE_P(Transports, MovesTest, TransportKinds(), NameOf);

TEST_P(MovesTest, SlicesArriveAsTheyWere) {
  Apply(here.shell, 0);
  Begin();
  EXPECT_GT(here_urgent, 0);
  ASSERT_TRUE(Run([&] { return there_urgent > 0; }));
  EXPECT_TRUE(Reports(there.shell, MoveReport::Stage::kArrived));
  EXPECT_EQ(there.shell.machine().Find(moving[0]), nullptr);

  auto made = Orders(kOther, {});
  for (const SliceId slice : moving) made.orders.push_back({slice, kIncarnation, "", "", 0, kMove});
  there.shell.OnHeartbeatReply(made);
  for (const SliceId slice : moving) {
    const auto* moved = there.shell.machine().Find(slice);
    ASSERT_NE(moved, nullptr);
    EXPECT_TRUE(All(moved->values(), kInitial - 1));
    EXPECT_EQ(moved->version, 1u);
    EXPECT_EQ(moved->ledger, here.shell.machine().Find(slice)->ledger);
  }
  // The first server learns it from the second: it sends those who push to it away.
  const auto taken = [&] {
    const auto request = Batch(1, {moving[0]});
    std::vector<uint64_t> elements;
    EXPECT_TRUE(here.shell.machine().Begin(request, &elements).ok());
    return here.shell.machine().Apply(request, 0, std::vector<float>(elements[0], 1.0f)).outcome ==
           SliceOutcome::kNotHere;
  };
  EXPECT_TRUE(Run(taken));
  uint64_t least = 0;
  for (const SliceId slice : moving) least += table.slices[slice.value].elements() * sizeof(float);
  EXPECT_GE(here.shell.bytes_moved(), least);
  EXPECT_LE(here.shell.bytes_moved(), least + 1000);
  EXPECT_GE(there.shell.bytes_in(), here.shell.bytes_moved());
}

TEST_P(MovesTest, AServerThatCannotBeReachedIsReported) {
  const auto ordered = Ordered();
  there.listener.reset();
  here.shell.OnHeartbeatReply(ordered);
  EXPECT_TRUE(Run([&] { return Reports(here.shell, MoveReport::Stage::kFailed); }));
}

TEST_P(MovesTest, AMoveThatIsGivenUpIsReportedAndTheNextOneIsMade) {
  Begin();
  ASSERT_TRUE(Run([&] { return there_urgent > 0; }));
  there.shell.machine().MakeHeartbeat();
  there.shell.OnHeartbeatReply(Orders(kOther, {}));
  EXPECT_TRUE(Run([&] { return Reports(here.shell, MoveReport::Stage::kFailed); }))
      << "the coordinator has given it up";
  here.shell.OnHeartbeatReply(Orders(kServer, AllSlices(table)));
  auto again = Ordered();
  again.moves[0].id = kMove + 1;
  here.shell.OnHeartbeatReply(again);
  EXPECT_TRUE(Run([&] {
    const auto moves = here.shell.machine().MakeHeartbeat().moves;
    return moves.size() == 1 && moves[0].id == kMove + 1 && moves[0].stage == MoveReport::Stage::kFrozen;
  }));
}

class MovesPeer final : public Peer {
 public:
  void Send(const wire::MoveRequest& request, Bytes payload) {
    Peer::Send(wire::FrameType::kMove, fields::Encode(request), std::move(payload));
  }
  int answers() const { return answers_; }

  net::Places OnHeader(net::Connection&, uint8_t, ByteView, uint64_t) override {
    ++answers_;
    return net::Spans();
  }

 private:
  int answers_ = 0;
};

TEST_P(MovesTest, WrongFramesEndTheConnection) {
  const auto client = Make(server_loop);
  const Bytes state =
      fields::Encode(wire::SliceState{protocol::Ledger(std::vector<protocol::Position>(2)), {}});
  const uint64_t values = table.slices[0].elements() * sizeof(float);
  const auto good = [&] {
    return wire::MoveRequest{
        .move = 9, .index = 0, .count = 2, .slice = SliceId(0), .state_bytes = state.size()};
  };
  Bytes payload = state;
  payload.resize(state.size() + values);
  std::vector<std::pair<wire::MoveRequest, Bytes>> wrong;
  auto request = good();
  request.slice = SliceId(4711);
  wrong.emplace_back(request, payload);
  request = good();
  request.index = 1;
  wrong.emplace_back(request, payload);
  request = good();
  request.state_bytes = 0;
  wrong.emplace_back(request, payload);
  Bytes damaged = payload;
  std::memset(damaged.data(), 0xff, state.size());
  wrong.emplace_back(good(), damaged);
  for (const auto& [header, bytes] : wrong) {
    MovesPeer peer;
    peer.Connect(*client, there.address());
    ASSERT_TRUE(Run([&] { return peer.connected(); }));
    peer.Send(header, bytes);
    EXPECT_TRUE(Run([&] { return !peer.closed().ok(); }));
  }
  // The same slice twice.
  MovesPeer peer;
  peer.Connect(*client, there.address());
  ASSERT_TRUE(Run([&] { return peer.connected(); }));
  peer.Send(good(), payload);
  request = good();
  request.index = 1;
  peer.Send(request, payload);
  EXPECT_TRUE(Run([&] { return !peer.closed().ok(); }));
  EXPECT_EQ(peer.answers(), 0);
}

}  // namespace
}  // namespace leat::ps
