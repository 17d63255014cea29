// A coordinator that takes over while slices move.
#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using Stage = MoveReport::Stage;

class MovesTakeoverTest : public CoordinatorTest {
 protected:
  MovesTakeoverTest() {
    config_.max_servers = 4;
    config_.term = 1;
    Start({});
    Run();
    c_ = JoinServer("c");
  }
  // The former coordinator is gone; its journal is all that there is.
  void TakeOver() {
    ++config_.term;
    config_.take_over = true;
    Start({{}, journal_});
    Take(coordinator_->OnTimer(now_));
    Stream(100, 1000);
  }
  // Begins a move: one of the first two servers is to hand slices over to the third.
  MoveOrder BeginMove() {
    for (int i = 0; i < 100; ++i, now_ += milliseconds(100)) {
      for (NodeId server : {a_, b_}) {
        const auto reply = SendServerHeartbeat(server);
        if (reply.moves.empty()) continue;
        from_ = server;
        move_reports_[from_] = {{reply.moves[0].id, Stage::kFrozen, ""}};
        return reply.moves[0];
      }
    }
    ADD_FAILURE() << "no move";
    return {};
  }
  // The third server has the slices, as it says until it learns that they are its own.
  ServerHeartbeatReply SayArrived(const MoveOrder& order) {
    ServerHeartbeat heartbeat;
    heartbeat.node = c_;
    heartbeat.term = config_.term;
    heartbeat.ledgers = {{order.slices, 0, ledger_.partitions(), 0}};
    heartbeat.moves = {{order.id, Stage::kArrived, ""}};
    return std::get<ServerHeartbeatReply>(Call(heartbeat));
  }
  SliceLocation PlaceOf(const MoveOrder& order) const {
    return coordinator_->status().view.slices[order.slices[0].slice.value];
  }
  static bool Has(const std::vector<SliceOrder>& orders, const MoveOrder& move) {
    return std::ranges::any_of(orders, [&](const SliceOrder& order) {
      return order.slice == move.slices[0].slice && order.incarnation == move.slices[0].incarnation;
    });
  }

  NodeId c_, from_;
};

TEST_F(MovesTakeoverTest, AMoveIsJournaledBeforeAnybodyKnows) {
  const MoveOrder order = BeginMove();
  SayArrived(order);
  ASSERT_THAT(actions_, SizeIs(::testing::Ge(2u)));
  const auto* journal = std::get_if<AppendJournal>(&actions_[0]);
  ASSERT_NE(journal, nullptr);
  const auto* placed = std::get_if<SlicesPlaced>(&journal->record);
  ASSERT_NE(placed, nullptr);
  ASSERT_EQ(placed->places.size(), order.slices.size());
  for (size_t i = 0; i < order.slices.size(); ++i) {
    const auto& [slice, incarnation] = order.slices[i];
    EXPECT_EQ(placed->places[i], (SliceAssignment{slice, c_, incarnation, order.id}));
  }
}

// The server with the slices has not heard of it, and the other one keeps its copy frozen.
TEST_F(MovesTakeoverTest, AJournaledMoveIsMadeByTheNextCoordinator) {
  const MoveOrder order = BeginMove();
  SayArrived(order);
  DropReplaced(&journal_);
  TakeOver();
  SendServerHeartbeat(from_ == a_ ? b_ : a_);
  const auto former = SendServerHeartbeat(from_);
  EXPECT_THAT(former.moves, IsEmpty());
  EXPECT_FALSE(Has(former.orders, order)) << "its copy is dropped";
  EXPECT_FALSE(PlaceOf(order).live) << "its report counts, and makes nothing live";
  EXPECT_EQ(coordinator_->status().phase, Phase::kWaitingForServers);
  const auto reply = SayArrived(order);
  ASSERT_THAT(reply.orders, SizeIs(order.slices.size()));
  EXPECT_EQ(reply.orders[0].move, order.id) << "the order that makes it take what has arrived";
  EXPECT_TRUE(Has(reply.orders, order));
  EXPECT_EQ(PlaceOf(order), (SliceLocation{c_, order.slices[0].incarnation, true}));
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);

  // It holds them by the same order as long as they stay.
  TakeOver();
  EXPECT_EQ(SayArrived(order).orders, reply.orders);
}

TEST_F(MovesTakeoverTest, AMoveThatIsNotJournaledIsForgotten) {
  const MoveOrder order = BeginMove();
  SendServerHeartbeat(from_);
  TakeOver();
  SendServerHeartbeat(from_ == a_ ? b_ : a_);
  const auto former = SendServerHeartbeat(from_);
  EXPECT_THAT(former.moves, IsEmpty()) << "it goes on with the slices";
  EXPECT_TRUE(Has(former.orders, order));
  EXPECT_EQ(PlaceOf(order), (SliceLocation{from_, order.slices[0].incarnation, true}));
  const auto reply = SayArrived(order);
  EXPECT_THAT(reply.orders, IsEmpty());
  EXPECT_EQ(std::ranges::count(reply.incoming, order.id), 0) << "what has arrived is dropped";
  EXPECT_EQ(PlaceOf(order).server, from_);
  move_reports_.clear();
  EXPECT_GT(BeginMove().id, order.id) << "the server that has joined gets its share";
}

TEST_F(MovesTakeoverTest, AServerThatLacksWhatItHasSaidToHaveIsEvicted) {
  const MoveOrder order = BeginMove();
  SayArrived(order);
  TakeOver();
  SendServerHeartbeat(a_);
  SendServerHeartbeat(b_);
  ServerHeartbeat heartbeat;
  heartbeat.node = c_;
  heartbeat.term = config_.term;
  heartbeat.failed = {order.slices[0]};
  EXPECT_TRUE(std::get<ServerHeartbeatReply>(Call(heartbeat)).evicted);
  EXPECT_EQ(PlaceOf(order).server, NodeId());
}

TEST_F(MovesTakeoverTest, AServerThatLeavesGoesOnLeaving) {
  leaving_ = {a_};
  SendServerHeartbeat(a_);
  leaving_.clear();
  TakeOver();
  for (NodeId server : {a_, b_, c_}) SendServerHeartbeat(server);
  EXPECT_TRUE(SendServerHeartbeat(a_).drain);
  EXPECT_THAT(coordinator_->status().moves.draining, ::testing::ElementsAre(a_));
  BeginMove();
  EXPECT_EQ(from_, a_);
}

}  // namespace
}  // namespace leat::protocol
