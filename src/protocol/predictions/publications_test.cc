#include "protocol/predictions/predictions.h"

#include "protocol/coordinator/testing.h"

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Partitions 0 and 1 begin at 0 and 1000; splits have 20 events in 2 runs.
class PublicationsTest : public CoordinatorTest {
 protected:
  PublicationsTest() {
    config_.max_unpublished = 40;
    config_.feeds = {":7"};
    config_.checkpoint_interval = seconds(0);
    Start({});
  }

  // The coordinator's own feed reports about a partition.
  void Publish(uint32_t partition, std::optional<uint64_t> published, std::vector<OpenSplit> held = {},
               Status status = {}) {
    PublisherReport report{
        .partition = partition, .published = published, .held = std::move(held), .status = std::move(status)};
    for (const auto& order : coordinator_->publisher_orders()) {
      if (order.partition == partition) report.assignment = order.assignment;
    }
    Take(coordinator_->OnPublishers(now_, {report}));
  }
  WorkerHeartbeatReply Ask(uint32_t wanted, std::vector<uint64_t> held = {}, bool can_rescore = false,
                           std::vector<UnsentScores> unsent = {}, std::vector<uint64_t> rescoring = {}) {
    WorkerHeartbeat heartbeat;
    heartbeat.node = worker_;
    heartbeat.leases_wanted = wanted;
    heartbeat.held = std::move(held);
    heartbeat.can_rescore = can_rescore;
    heartbeat.unsent = std::move(unsent);
    heartbeat.rescoring = std::move(rescoring);
    return std::get<WorkerHeartbeatReply>(Call(heartbeat));
  }
  std::vector<Lease> TrainAll(const std::vector<Lease>& leases) {
    std::vector<uint64_t> ids;
    for (const Lease& lease : leases) {
      Train(lease);
      ids.push_back(lease.id);
    }
    SendHeartbeat(worker_, 0, {}, ids);
    SendServerHeartbeat(a_);
    SendServerHeartbeat(b_);
    return leases;
  }
};

TEST_F(PublicationsTest, NothingIsCutBeforeItIsKnownHowFarAPartitionIsPublished) {
  Run(100, 1000);
  EXPECT_THAT(Ask(5).leases, IsEmpty());
  EXPECT_THAT(coordinator_->status().waiting_for, HasSubstr("partition 0, whose publisher is being opened"));
  const auto orders = coordinator_->publisher_orders();
  ASSERT_EQ(orders.size(), 1u) << "the other partition is empty";
  EXPECT_TRUE(orders[0].fresh);
  EXPECT_EQ(orders[0].start, 0u);
  EXPECT_THAT(coordinator_->status().view.publishers, ElementsAre(":7", ""));
  Publish(0, std::nullopt, {}, Status(Code::kUnavailable, "no broker"));
  EXPECT_THAT(Ask(5).leases, IsEmpty());
  EXPECT_THAT(coordinator_->status().waiting_for, HasSubstr("partition 0: no broker"));
  Publish(0, 0);
  EXPECT_EQ(Ask(1).leases.size(), 1u);
  EXPECT_FALSE(coordinator_->publisher_orders()[0].fresh);
}

TEST_F(PublicationsTest, CutsAreNotFurtherAheadThanTheLimit) {
  Run(1000, 1000);
  Publish(0, 0);
  const auto leases = Ask(10).leases;
  ASSERT_EQ(leases.size(), 2u) << "40 events";
  EXPECT_THAT(coordinator_->status().waiting_for, HasSubstr("partition 0 to be published"));
  Publish(0, 20);
  EXPECT_EQ(Ask(10, {leases[0].id, leases[1].id}).leases.size(), 1u);
}

TEST_F(PublicationsTest, TheLimitIsThatOfAllPartitionsTogether) {
  Run(1000, 2000);
  Publish(0, 0);
  Publish(1, 1000);
  std::vector<uint64_t> held;
  for (const Lease& lease : Ask(10).leases) held.push_back(lease.id);
  ASSERT_EQ(held.size(), 2u) << "40 events of both";
  Publish(1, 1020);
  const auto more = Ask(10, held).leases;
  ASSERT_EQ(more.size(), 1u);
  held.push_back(more[0].id);
  Publish(1, 1020);
  EXPECT_THAT(Ask(10, held).leases, IsEmpty()) << "nothing more is published";
}

TEST_F(PublicationsTest, AGroupMovesAsAWhole) {
  config_.publishing_groups = 1;
  Start({});
  Run(100, 1000);
  auto orders = coordinator_->publisher_orders();
  ASSERT_EQ(orders.size(), 1u) << "the other partition is empty";
  Stream(100, 1100);
  orders = coordinator_->publisher_orders();
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_EQ(orders[0].group, orders[1].group);
  EXPECT_EQ(orders[0].assignment, orders[1].assignment);
  EXPECT_TRUE(orders[1].fresh);
  const NodeId one = Join(Role::kFeed, "f:1").node, other = Join(Role::kFeed, "f:2").node;
  FeedHeartbeat heartbeat{.node = one, .publishers = {}};
  const auto moved = std::get<FeedHeartbeatReply>(Call(heartbeat)).publish;
  ASSERT_EQ(moved.size(), 2u);
  EXPECT_GT(moved[0].assignment, orders[0].assignment);
  EXPECT_EQ(moved[0].assignment, moved[1].assignment);
  heartbeat.node = other;
  EXPECT_THAT(std::get<FeedHeartbeatReply>(Call(heartbeat)).publish, IsEmpty());
}

TEST_F(PublicationsTest, AResumedJobKeepsItsGroups) {
  const auto groups_of = [this] {
    std::vector<uint32_t> groups;
    for (const auto& order : coordinator_->publisher_orders()) groups.push_back(order.group);
    return groups;
  };
  const auto grouped = [this] {
    return std::ranges::count_if(journal_, [](const JournalRecord& record) {
      return std::holds_alternative<PublishersGrouped>(record);
    });
  };
  config_.publishing_groups = 1;
  Start({});
  Run(100, 1100);
  EXPECT_THAT(groups_of(), ElementsAre(0, 0));
  EXPECT_EQ(grouped(), 1);
  config_.publishing_groups = 2;
  Start({std::nullopt, journal_});
  orders_.clear();
  Run(100, 1100);
  EXPECT_THAT(groups_of(), ElementsAre(0, 0));
  EXPECT_EQ(grouped(), 1) << "once";
  // A journal from the time when each partition had a producer of its own.
  std::erase_if(journal_, [](const JournalRecord& record) {
    return std::holds_alternative<PublishersGrouped>(record);
  });
  config_.publishing_groups = 1;
  Start({std::nullopt, journal_});
  orders_.clear();
  Run(100, 1100);
  EXPECT_THAT(groups_of(), ElementsAre(0, 1));
  EXPECT_EQ(grouped(), 0);
  journal_.push_back(PublishersGrouped{3});
  EXPECT_THROW(Start({std::nullopt, journal_}), std::invalid_argument);
}

TEST_F(PublicationsTest, ScoresThatAreLostAreMadeAgain) {
  Run(40, 1000, true);
  Publish(0, 0);
  const auto leases = TrainAll(Ask(2).leases);
  ASSERT_EQ(leases.size(), 2u);
  RunSet first(2);
  first.Add(0);
  const std::vector<OpenSplit> held{{leases[0].cut, RunSet(2, true)}, {leases[1].cut, first}};
  Publish(0, 0, held);
  EXPECT_THAT(Ask(0, {}, true).rescores, IsEmpty()) << "it may be on its way";
  now_ += Predictions::kScoresLostAfter;
  EXPECT_THAT(Ask(0, {}, true, {{0, 20}}).rescores, IsEmpty()) << "the worker still has it";
  EXPECT_THAT(Ask(0, {}, false).rescores, IsEmpty());
  const auto again = Ask(0, {}, true).rescores;
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].cut, leases[1].cut);
  EXPECT_EQ(again[0].missing, first.Complement());
  EXPECT_THAT(Ask(0, {}, true, {}, {again[0].id}).rescores, IsEmpty()) << "it is being scored";
  EXPECT_THAT(Ask(0, {}, true).rescores, IsEmpty()) << "its scores are on their way";
  now_ += Predictions::kScoresLostAfter;
  EXPECT_EQ(Ask(0, {}, true).rescores.size(), 1u) << "they have been lost, too";
  Take(coordinator_->OnNodeLost(now_, worker_));
  worker_ = JoinWorker();
  EXPECT_EQ(Ask(0, {}, true).rescores.size(), 1u);
}

TEST_F(PublicationsTest, TheJobEndsWhenAllIsPublished) {
  Run(40, 1000, true);
  Publish(0, 0);
  TrainAll(Ask(2).leases);
  EXPECT_FALSE(coordinator_->status().finished);
  EXPECT_EQ(coordinator_->status().phase, Phase::kRunning);
  EXPECT_EQ(coordinator_->status().predictions->behind, 40u);
  Publish(0, 40);
  EXPECT_TRUE(coordinator_->status().finished);
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
  EXPECT_EQ(coordinator_->status().predictions->behind, 0u);
}

TEST_F(PublicationsTest, NoCheckpointIsLeftHalfMadeAtTheEnd) {
  Run(40, 1000, true);
  Publish(0, 0);
  TrainAll(Ask(2).leases);
  Admin(AdminRequest::Kind::kCheckpoint);
  Commit(SaveAll());
  Admin(AdminRequest::Kind::kCheckpoint);
  Checkpoint();
  Publish(0, 40);
  EXPECT_TRUE(coordinator_->status().finished);
  const auto removed = All<RemoveCheckpoint>(actions_);
  ASSERT_EQ(removed.size(), 1u);
  EXPECT_EQ(removed[0].id, prepared_);
}

TEST_F(PublicationsTest, PartitionsMoveToFeedsThatJoinAndBack) {
  Run(100, 1100);
  EXPECT_EQ(coordinator_->publisher_orders().size(), 2u);
  const uint64_t before = coordinator_->publisher_orders()[0].assignment;
  const NodeId feed = Join(Role::kFeed, "f:1").node;
  EXPECT_THAT(coordinator_->publisher_orders(), IsEmpty());
  EXPECT_THAT(coordinator_->status().view.publishers, ElementsAre("f:1", "f:1"));
  Publish(0, 0);
  EXPECT_THAT(Ask(1).leases, IsEmpty()) << "the report of one that is none any more";

  FeedHeartbeat heartbeat{.node = feed, .publishers = {}};
  auto orders = std::get<FeedHeartbeatReply>(Call(heartbeat)).publish;
  ASSERT_EQ(orders.size(), 2u);
  EXPECT_GT(orders[0].assignment, before);
  heartbeat.publishers = {{.partition = 0,
                           .assignment = orders[0].assignment,
                           .published = 0,
                           .held = {},
                           .rescored = 3,
                           .status = {}}};
  Call(heartbeat);
  EXPECT_EQ(Ask(1).leases.size(), 1u);
  Take(coordinator_->OnNodeLost(now_, feed));
  EXPECT_EQ(coordinator_->publisher_orders().size(), 2u);
  EXPECT_FALSE(coordinator_->publisher_orders()[0].fresh);
  EXPECT_EQ(coordinator_->status().predictions->rescored, 3u);
}

TEST_F(PublicationsTest, CutsAreKeptUntilTheyArePublished) {
  config_.keep_checkpoints = 1;
  Start({});
  Run(100, 1000);
  Publish(0, 0);
  TrainAll(Ask(2).leases);
  Publish(0, 20);
  Admin(AdminRequest::Kind::kCheckpoint);
  const Manifest manifest = SaveAll();
  EXPECT_EQ(manifest.watermark[0].offset, 40u);
  Commit(manifest);
  EXPECT_EQ(All<DropCheckpoints>(actions_).at(0).watermark[0].offset, 20u);

  // A restart gets what is not published scored again, in the same splits.
  Start({manifest, journal_});
  orders_.clear();
  Run(100, 1000);
  ASSERT_FALSE(coordinator_->publisher_orders()[0].fresh);
  Publish(0, 20);
  EXPECT_THAT(Ask(0, {}, true).rescores, IsEmpty());
  now_ += Predictions::kScoresLostAfter;
  const auto again = Ask(0, {}, true).rescores;
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].cut.begin.offset, 20u);
  EXPECT_EQ(again[0].cut.end, 40u);
  EXPECT_TRUE(again[0].missing.full());
}

TEST_F(PublicationsTest, APublisherThatCannotGoOnEndsTheJob) {
  Run(100, 1000);
  Publish(0, std::nullopt, {}, Status(Code::kFailedPrecondition, "published by another job"));
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
}

TEST_F(PublicationsTest, AnOffsetInTheMiddleOfASplitIsAnothersDoing) {
  Run(100, 1000);
  Publish(0, 0);
  Ask(1);
  Publish(0, 7);
  EXPECT_EQ(coordinator_->status().phase, Phase::kStopping);
}

}  // namespace
}  // namespace leat::protocol
