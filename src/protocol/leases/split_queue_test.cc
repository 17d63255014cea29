#include "protocol/leases/split_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <stdexcept>

namespace leat::protocol {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

const NodeId kOnlyServer(1), kHolder(7), kLaterHolder(8);

// Two slices on one server, two partitions that start at 0 and 1000; batches of 10, splits of 2 batches.
class SplitQueueTest : public ::testing::Test {
 protected:
  SplitQueueTest()
      : table_{1, {{"v", Shape{2}, {}}}, {{0, 0, 1}, {0, 1, 2}}},
        slices_(table_, 2, [this] { return Incarnation(++lives_); }),
        cursors_({.hash = 1, .batch_size = 10, .split_batches = 2, .shuffle_seed = 0, .epochs = 1}, 2,
                 milliseconds(100)),
        queue_(&cursors_),
        ledgers_(2, Ledger(std::vector<Position>{{0, 0}, {0, 1000}})) {
    cursors_.Start({{0, 0}, {0, 1000}});
    slices_.SetStart({{0, 0}, {0, 1000}});
    slices_.PlaceAll({kOnlyServer}, Place(table_, Placement::kGreedy, 1));
    Report();
  }

  void Report() {
    ServerHeartbeat heartbeat;
    heartbeat.node = kOnlyServer;
    for (uint32_t i = 0; i < 2; ++i) {
      heartbeat.ledgers.push_back(
          {{{SliceId(i), slices_.At(SliceId(i)).incarnation}}, 0, ledgers_[i].partitions()});
    }
    ASSERT_TRUE(slices_.Report(heartbeat, {}).ok());
    heartbeat_counts_[kOnlyServer].Add(heartbeat);
    queue_.OnServerReport(now_, slices_, heartbeat_counts_);
  }

  void Range(uint32_t partition, uint64_t end, bool sealed = false) {
    cursors_.OnRange(now_, {partition, partition * 1000, end, sealed});
  }
  std::optional<Lease> Grant(NodeId worker = kHolder) {
    return queue_.Grant(now_, ++last_lease_, worker, slices_);
  }
  void Train(const Lease& lease) {
    for (Ledger& ledger : ledgers_) {
      for (uint32_t b = 0; b < lease.cut.batches(); ++b) ledger.Record(lease.cut, b);
    }
  }

  Time now_{0};
  SliceTable table_;
  uint64_t lives_ = 0;
  SliceMap slices_;
  PartitionCursors cursors_;
  SplitQueue queue_;
  std::vector<Ledger> ledgers_;
  HeartbeatCounts heartbeat_counts_;
  uint64_t last_lease_ = 0;
};

TEST_F(SplitQueueTest, PartitionsAdvanceTogether) {
  Range(0, 60);
  Range(1, 1200);
  const auto cuts = queue_.CutMore(now_, 1, 5);
  std::vector<std::pair<uint32_t, uint64_t>> order;
  while (auto lease = Grant()) order.push_back({lease->cut.partition, lease->cut.begin.offset});
  EXPECT_THAT(order, ElementsAre(std::pair(0u, 0u), std::pair(1u, 1000u), std::pair(0u, 20u),
                                 std::pair(1u, 1020u), std::pair(0u, 40u)));
  EXPECT_EQ(cuts.size(), 5u);
  EXPECT_EQ(queue_.leased(), 5u);
}

TEST_F(SplitQueueTest, WorkersStayWithTheirPartitions) {
  Range(0, 80);
  Range(1, 1200);
  EXPECT_EQ(queue_.CutMore(now_, 1, 12).size(), 12u);
  const auto offset = [&](NodeId worker) { return Grant(worker)->cut.begin.offset; };
  EXPECT_EQ(offset(kHolder), 0u);
  EXPECT_EQ(offset(kLaterHolder), 1000u);
  EXPECT_EQ(offset(kLaterHolder), 1020u);
  for (const uint64_t next : {20, 40, 60}) EXPECT_EQ(offset(kHolder), next);
  EXPECT_FALSE(queue_.HasOwn(kHolder));
  EXPECT_TRUE(queue_.HasOwn(kLaterHolder));
  EXPECT_EQ(offset(kHolder), 1040u) << "it would be idle";
  EXPECT_EQ(offset(kLaterHolder), 1060u);
  queue_.Reclaim(now_, kLaterHolder);
  EXPECT_TRUE(queue_.HasOwn(kHolder));
  for (const uint64_t again : {1000, 1020, 1060}) EXPECT_EQ(offset(kHolder), again) << "leased before";
  EXPECT_TRUE(queue_.HasOwn(kHolder)) << "both partitions are its own now";
  EXPECT_EQ(offset(kHolder), 1080u);
}

TEST_F(SplitQueueTest, SeveralWorkersReadAPartitionIfThereAreMore) {
  Range(0, 400);
  Range(1, 1400);
  queue_.CutMore(now_, 1, 40);
  const NodeId workers[] = {NodeId(2), NodeId(5), NodeId(3), NodeId(4), NodeId(6)};
  for (const NodeId worker : workers) ASSERT_TRUE(Grant(worker));
  std::map<NodeId, std::set<uint32_t>> read;
  for (int turn = 0; turn < 4; ++turn) {
    for (const NodeId worker : workers) read[worker].insert(Grant(worker)->cut.partition);
  }
  for (const uint64_t id : {2, 4, 6}) EXPECT_THAT(read[NodeId(id)], ElementsAre(0u)) << id;
  for (const uint64_t id : {3, 5}) EXPECT_THAT(read[NodeId(id)], ElementsAre(1u)) << id;
}

TEST_F(SplitQueueTest, PartitionsAreSharedUntilTheyAreCutToTheirEnd) {
  Range(0, 20, true);
  Range(1, 1200, true);
  EXPECT_EQ(queue_.CutMore(now_, 1, 12).size(), 11u);
  const Lease only = *Grant(kHolder);
  EXPECT_EQ(only.cut.begin.offset, 0u);
  EXPECT_EQ(Grant(kLaterHolder)->cut.begin.offset, 1000u);
  EXPECT_TRUE(queue_.HasOwn(kHolder)) << "both read partition 1";
  queue_.Reconcile(now_, kHolder, {});
  EXPECT_EQ(Grant(kLaterHolder)->cut.begin.offset, 1020u);
  EXPECT_EQ(Grant(kHolder)->cut, only.cut) << "the grant was lost";
}

TEST_F(SplitQueueTest, WholeCutsAreMadeAhead) {
  Range(0, 30);
  Range(1, 1200);
  EXPECT_EQ(queue_.CutAhead(now_, 3).size(), 3u);
  EXPECT_THAT(queue_.CutAhead(now_, 5), IsEmpty()) << "more than half of them are free";
  now_ += milliseconds(100);
  EXPECT_EQ(queue_.CutAhead(now_, 100).size(), 8u) << "no tail is cut short";
}

TEST_F(SplitQueueTest, CutsOnlyWhenItMustAndThenAhead) {
  Range(0, 1000);
  EXPECT_EQ(queue_.CutMore(now_, 2, 6).size(), 6u);
  EXPECT_THAT(queue_.CutMore(now_, 6, 10), IsEmpty());
  EXPECT_EQ(queue_.CutMore(now_, 7, 10).size(), 4u);
}

TEST_F(SplitQueueTest, ATailIsCutShortWhenItHasWaitedAndIsWanted) {
  Range(0, 15);
  EXPECT_THAT(queue_.CutMore(now_, 1, 4), IsEmpty());
  now_ += milliseconds(99);
  EXPECT_THAT(queue_.CutMore(now_, 1, 4), IsEmpty());
  now_ += milliseconds(1);
  auto cuts = queue_.CutMore(now_, 3, 4);
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].end, 10u);
  EXPECT_THAT(queue_.CutMore(now_, 3, 4), IsEmpty()) << "the rest waits anew";
  now_ += milliseconds(100);
  cuts = queue_.CutMore(now_, 3, 4);
  ASSERT_EQ(cuts.size(), 1u);
  EXPECT_EQ(cuts[0].end, 15u);
  now_ += milliseconds(200);
  Range(0, 30);
  EXPECT_THAT(queue_.CutMore(now_, 3, 4), IsEmpty()) << "later events wait since they came";
  now_ += milliseconds(100);
  EXPECT_EQ(queue_.CutMore(now_, 3, 4).size(), 1u);
}

TEST_F(SplitQueueTest, ALeaseCarriesWhatAnySliceLacks) {
  Range(0, 20);
  queue_.CutMore(now_, 1, 1);
  const Lease lease = *Grant();
  EXPECT_TRUE(lease.missing.full());
  ledgers_[0].Record(lease.cut, 0);
  ledgers_[0].Record(lease.cut, 1);
  ledgers_[1].Record(lease.cut, 0);
  Report();
  queue_.Reclaim(now_, kHolder);
  const Lease again = *Grant(kLaterHolder);
  EXPECT_EQ(again.cut, lease.cut);
  EXPECT_FALSE(again.missing.Has(0));
  EXPECT_TRUE(again.missing.Has(1));
  EXPECT_EQ(queue_.regranted(), 1u);
  EXPECT_NE(again.id, lease.id);
}

// The first heartbeat may have been made before the last acknowledgement, the second one cannot.
TEST_F(SplitQueueTest, AReleasedSplitWaitsForTwoHeartbeatsOfEachServer) {
  Range(0, 20);
  queue_.CutMore(now_, 1, 1);
  const Lease lease = *Grant();
  queue_.Release(now_, lease.id, kHolder, heartbeat_counts_);
  EXPECT_EQ(queue_.leased(), 0u);
  EXPECT_EQ(queue_.free(), 0u);
  Report();
  EXPECT_EQ(queue_.free(), 0u);
  Report();
  EXPECT_EQ(queue_.free(), 1u) << "given up: by now the ledgers would have it";

  const Lease again = *Grant();
  Train(again);
  queue_.Release(now_, again.id, kHolder, heartbeat_counts_);
  Report();
  Report();
  EXPECT_EQ(queue_.free(), 0u);
  EXPECT_FALSE(Grant());
}

TEST_F(SplitQueueTest, OnlyItsHolderReleasesALease) {
  Range(0, 20);
  queue_.CutMore(now_, 1, 1);
  const Lease lease = *Grant();
  queue_.Release(now_, lease.id, kLaterHolder, heartbeat_counts_);
  queue_.Release(now_, 4711, kHolder, heartbeat_counts_);
  EXPECT_EQ(queue_.leased(), 1u);
}

TEST_F(SplitQueueTest, AGrantThatWasLostIsFreeAndWhatIsNotItsOwnIsRevoked) {
  Range(0, 60);
  queue_.CutMore(now_, 3, 3);
  const Lease a = *Grant(), b = *Grant(), c = *Grant(kLaterHolder);
  EXPECT_THAT(queue_.Reconcile(now_, kHolder, {b.id, c.id, 999}), ElementsAre(c.id, 999u));
  EXPECT_EQ(queue_.free(), 1u);
  EXPECT_EQ(Grant(kLaterHolder)->cut, a.cut);
  EXPECT_EQ(queue_.regranted(), 0u) << "it was never worked on";
  queue_.Reclaim(now_, kLaterHolder);
  EXPECT_EQ(queue_.free(), 2u);
  EXPECT_EQ(queue_.leased(), 1u);
}

TEST_F(SplitQueueTest, WhatASliceLosesIsTrainedAgain) {
  Range(0, 40);
  queue_.CutMore(now_, 2, 2);
  for (int i = 0; i < 2; ++i) {
    const Lease lease = *Grant();
    Train(lease);
    queue_.Release(now_, lease.id, kHolder, heartbeat_counts_);
    Report();
  }
  EXPECT_EQ(slices_.Watermarks()[0], (Position{0, 40}));
  EXPECT_FALSE(Grant());

  slices_.Orphan(kOnlyServer);
  EXPECT_EQ(slices_.Watermarks()[0], (Position{0, 0})) << "what the slices return from";
  slices_.Adopt(kOnlyServer, {kOnlyServer});
  ledgers_[1] = Ledger(std::vector<Position>{{0, 0}, {0, 1000}});
  Report();
  ASSERT_TRUE(slices_.ready());
  queue_.Reconsider(now_, slices_);
  EXPECT_EQ(queue_.free(), 2u);
  EXPECT_EQ(Grant()->cut.begin, (Position{0, 0}));
}

TEST_F(SplitQueueTest, KnowsWhenAllIsCut) {
  Range(0, 25, true);
  EXPECT_FALSE(cursors_.Exhausted()) << "partition 1 is unknown";
  Range(1, 1000, true);
  EXPECT_FALSE(cursors_.Exhausted());
  EXPECT_EQ(cursors_.Lag(slices_.Watermarks()), 25u);
  queue_.CutMore(now_, 10, 10);
  EXPECT_TRUE(cursors_.Exhausted());
  EXPECT_THAT(cursors_.Positions(), ElementsAre(Position{0, 25}, Position{0, 1000}));
}

TEST_F(SplitQueueTest, ForgetsWhatADurableWatermarkCovers) {
  Range(0, 100);
  queue_.CutMore(now_, 5, 5);
  const Lease held = *Grant();
  queue_.DropBefore({{0, 60}, {0, 1000}});
  EXPECT_EQ(queue_.free(), 2u);
  EXPECT_THAT(queue_.Open({{0, 60}, {0, 1000}}).size(), 2u);
  EXPECT_EQ(queue_.leased(), 1u) << "still held by a worker";
  queue_.Release(now_, held.id, kHolder, heartbeat_counts_);
  Report();
  Report();
  EXPECT_EQ(Grant()->cut.begin, held.cut.begin);
}

// ---- overdue leases. No worker has ended a lease, so the long limit applies.

class OverdueTest : public SplitQueueTest {
 protected:
  OverdueTest() {
    Range(0, 20);
    queue_.CutMore(now_, 1, 1);
    first_ = *Grant(kHolder);
  }
  void Pass() {
    now_ += LeaseLimits{}.first;
    queue_.FreeOverdue(now_);
  }
  // Everything is trained: workers that still hold the split drop it.
  void ExpectOver() {
    EXPECT_EQ(queue_.free(), 0u);
    EXPECT_EQ(queue_.leased(), 0u);
    for (NodeId worker : {kHolder, kLaterHolder}) EXPECT_FALSE(Grant(worker));
  }
  Lease first_;
};

TEST_F(OverdueTest, AnOverdueSplitIsLeasedASecondTimeToAnotherWorker) {
  now_ += LeaseLimits{}.first - milliseconds(1);
  queue_.FreeOverdue(now_);
  EXPECT_FALSE(Grant(kLaterHolder));
  Pass();
  EXPECT_EQ(queue_.overdue(), 1u);
  EXPECT_FALSE(Grant(kHolder)) << "its own holder";
  EXPECT_EQ(queue_.FreeFor(kHolder), 0u);
  EXPECT_EQ(queue_.FreeFor(kLaterHolder), 1u);
  const Lease second = *Grant(kLaterHolder);
  EXPECT_EQ(second.cut, first_.cut);
  EXPECT_EQ(queue_.regranted(), 1u);
  EXPECT_THAT(queue_.Reconcile(now_, kHolder, {first_.id}), IsEmpty()) << "the first one stays valid";
  EXPECT_EQ(queue_.leased(), 2u);
}

TEST_F(OverdueTest, NeverAThirdAtOnce) {
  Pass();
  ASSERT_TRUE(Grant(kLaterHolder));
  Pass();
  EXPECT_EQ(queue_.overdue(), 2u);
  EXPECT_FALSE(Grant(NodeId(9)));
  queue_.Reclaim(now_, kHolder);
  EXPECT_TRUE(Grant(NodeId(9))) << "one of the two is gone, the other is overdue";
}

TEST_F(OverdueTest, TheFirstResultCountsAndTheOtherLeaseIsRevoked) {
  for (const bool first_wins : {true, false}) {
    SCOPED_TRACE(first_wins);
    Pass();
    const Lease second = *Grant(kLaterHolder);
    Train(first_);
    const Lease& winner = first_wins ? first_ : second;
    queue_.Release(now_, winner.id, first_wins ? kHolder : kLaterHolder, heartbeat_counts_);
    Report();
    const NodeId loser = first_wins ? kLaterHolder : kHolder;
    const uint64_t lost = first_wins ? second.id : first_.id;
    EXPECT_THAT(queue_.Reconcile(now_, loser, {lost}), ElementsAre(lost));
    ExpectOver();
    if (!first_wins) break;
    Range(0, 40);
    queue_.CutMore(now_, 1, 1);
    first_ = *Grant(kHolder);
    Pass();  // the median is long now
    Pass();
    Pass();
  }
}

TEST_F(OverdueTest, EndingAnOverdueLeaseBeforeTheSecondIsGrantedIsFine) {
  Pass();
  Train(first_);
  queue_.Release(now_, first_.id, kHolder, heartbeat_counts_);
  EXPECT_FALSE(Grant(kLaterHolder)) << "first the ledgers tell";
  Report();
  ExpectOver();
}

TEST_F(OverdueTest, AWorkerThatGivesUpLeavesTheSplitToTheOther) {
  Pass();
  const Lease second = *Grant(kLaterHolder);
  queue_.Release(now_, second.id, kLaterHolder, heartbeat_counts_);  // without a result
  Report();
  Report();
  EXPECT_TRUE(Grant(kLaterHolder)) << "the first one is still overdue";
  queue_.Reclaim(now_, kLaterHolder);
  queue_.Reclaim(now_, kHolder);
  EXPECT_EQ(queue_.free(), 1u);
  EXPECT_EQ(queue_.leased(), 0u);
}

TEST_F(OverdueTest, ALostSecondLeaseFreesTheSplitAgain) {
  Pass();
  ASSERT_TRUE(Grant(kLaterHolder));
  EXPECT_THAT(queue_.Reconcile(now_, kLaterHolder, {}), IsEmpty());
  EXPECT_EQ(queue_.FreeFor(kLaterHolder), 1u);
  EXPECT_EQ(queue_.FreeFor(kHolder), 0u);
}

TEST_F(OverdueTest, ADurableWatermarkForgetsAFreeSplitAndItsLease) {
  Pass();
  queue_.DropBefore({{0, 20}, {0, 1000}});
  EXPECT_THAT(queue_.Reconcile(now_, kHolder, {first_.id}), ElementsAre(first_.id));
  ExpectOver();
}

class RestoreTest : public SplitQueueTest {
 protected:
  static Cut Make(uint64_t begin, uint64_t end) {
    Cut cut;
    cut.begin = cut.after = {0, begin};
    cut.end = end;
    cut.hash = 5;
    cut.batch_size = 7;
    return cut;
  }
};

TEST_F(RestoreTest, CutsComeOutAsTheyWereAndNewRulesApplyBehind) {
  queue_.Restore({{0, 30}, {0, 1000}}, {Make(50, 70), Make(0, 30), Make(30, 50), Make(50, 70)});
  EXPECT_EQ(queue_.free(), 2u);
  EXPECT_EQ(Grant()->cut, Make(30, 50));
  EXPECT_EQ(Grant()->cut, Make(50, 70));
  Range(0, 200);
  const auto cuts = queue_.CutMore(now_, 1, 1);
  EXPECT_EQ(cuts.at(0).begin, (Position{0, 70}));
  EXPECT_EQ(cuts.at(0).hash, 1u);
}

TEST_F(RestoreTest, RefusesCutsThatContradict) {
  const std::vector<Position> watermark = {{0, 30}, {0, 1000}};
  Cut stray = Make(30, 50), none = Make(30, 50);
  stray.partition = 2;
  none.batch_size = 0;
  const std::vector<std::vector<Cut>> wrong = {
      {Make(40, 50)}, {Make(30, 50), Make(60, 70)}, {Make(30, 50), Make(30, 60)}, {Make(20, 40)}, {stray},
      {none}};
  for (const auto& cuts : wrong) {
    EXPECT_THROW(queue_.Restore(watermark, cuts), std::invalid_argument);
  }
}

}  // namespace
}  // namespace leat::protocol
