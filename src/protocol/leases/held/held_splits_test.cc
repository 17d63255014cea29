#include "protocol/leases/held/run_order.h"

#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

// A lease of `runs` runs with a batch each.
Lease LeaseOf(uint64_t id, uint32_t runs) {
  Lease lease;
  lease.id = id;
  lease.cut.begin = lease.cut.after = {0, id * 1000};
  lease.cut.end = lease.cut.begin.offset + runs;
  lease.missing = RunSet(runs, true);
  return lease;
}

TEST(HeldSplits, AReleasedLeaseIsReportedUntilAHeartbeatIsAnswered) {
  WorkerOutbox outbox;
  HeldSplits splits({}, outbox);
  splits.Take(LeaseOf(1, 4));
  splits.Take(LeaseOf(2, 4));
  splits.Release(1);
  WorkerHeartbeat heartbeat;
  splits.Report(false, true, &heartbeat);
  EXPECT_EQ(heartbeat.held, std::vector<uint64_t>{2});
  EXPECT_EQ(heartbeat.released, std::vector<uint64_t>{1});
  EXPECT_EQ(heartbeat.leases_wanted, 1u);
  EXPECT_TRUE(heartbeat.claims.empty());
  splits.Release(2);
  EXPECT_TRUE(splits.has_news());
  splits.OnAnswered();
  splits.Report(false, false, &heartbeat);
  EXPECT_EQ(heartbeat.released, std::vector<uint64_t>{2}) << "the answered heartbeat did not have it";
  EXPECT_FALSE(splits.has_news());
}

TEST(HeldSplits, ALeaseThatDoesNotFitTheJobIsReleasedAtOnce) {
  WorkerOutbox outbox;
  HeldSplits splits({.stepped = true}, outbox);
  splits.Take(LeaseOf(1, 4));  // no runs are assigned to it
  EXPECT_TRUE(splits.empty());
  EXPECT_TRUE(splits.has_news());
  EXPECT_TRUE(outbox.actions.empty()) << "nothing is read";
}

TEST(HeldSplits, AWorkerThatLeavesReleasesOnlyWhatItHasBegun) {
  WorkerOutbox outbox;
  HeldSplits splits({}, outbox);
  splits.Take(LeaseOf(1, 4));
  splits.Take(LeaseOf(2, 4));
  splits.Find(1)->next = 1;
  splits.GiveUp();
  WorkerHeartbeat heartbeat;
  splits.Report(true, false, &heartbeat);
  EXPECT_EQ(heartbeat.released, std::vector<uint64_t>{1});
  EXPECT_TRUE(heartbeat.held.empty());
  EXPECT_EQ(outbox.actions.size(), 4u) << "both are read, and both are dropped";
}

TEST(HeldSplits, TheLowestStepComesFirstAndOfThoseASplitThatIsReady) {
  WorkerOutbox outbox;
  HeldSplits splits({.stepped = true}, outbox);
  for (uint64_t id = 1; id <= 3; ++id) {
    Lease lease = LeaseOf(id, 4);
    lease.assigned = RunSet(4, true);
    lease.first_step = id == 3 ? 0 : 2;
    lease.width = lease.needed = 3;
    lease.lane = static_cast<uint32_t>(id - 1);
    splits.Take(lease);
  }
  EXPECT_EQ(splits.LowestStep()->lease.id, 3u);
  splits.Find(3)->next = 2;
  EXPECT_EQ(splits.LowestStep()->lease.id, 1u) << "the lowest lane";
  splits.Find(2)->ready = true;
  EXPECT_EQ(splits.LowestStep()->lease.id, 2u);
  EXPECT_FALSE(splits.LastOfStep(*splits.Find(2)));
  splits.Find(1)->next = splits.Find(3)->next = 4;
  EXPECT_TRUE(splits.LastOfStep(*splits.Find(2)));
}

}  // namespace
}  // namespace leat::protocol
