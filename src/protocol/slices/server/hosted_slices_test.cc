#include "protocol/slices/server/hosted_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class HostedSlicesTest : public ::testing::Test {
 protected:
  using Kind = SliceChange::Kind;
  static constexpr Incarnation kIncarnation{7};

  HostedSlicesTest() : slices_(Config()) { slices_.job().SetStart({Position(), Position()}); }
  static ServerConfig Config() {
    ServerConfig config;
    config.table = MakeSlices({{"w", Shape{200}, {}}}, 1, 1);
    return config;
  }
  HostedSlice* MakeLive(uint32_t id) {
    HostedSlice* const hosted = slices_.Add({SliceId(id), kIncarnation, "", "", 0});
    slices_.MakeLive(hosted, slices_.job().Make(hosted->order));
    return hosted;
  }
  std::vector<Kind> Kinds() {
    std::vector<Kind> kinds;
    for (const SliceChange& change : slices_.TakeChanges()) kinds.push_back(change.kind);
    return kinds;
  }

  HostedSlices slices_;
};

TEST_F(HostedSlicesTest, ListsChangesInOrder) {
  MakeLive(0);
  MakeLive(1);
  EXPECT_EQ(slices_.live(), 2u);
  slices_.Drop(SliceId(0));
  MakeLive(0);
  EXPECT_THAT(Kinds(), ElementsAre(Kind::kLive, Kind::kLive, Kind::kDropped, Kind::kLive));
  EXPECT_FALSE(slices_.changed());
  slices_.Drop(SliceId(5));  // it is not here
  EXPECT_FALSE(slices_.changed());
}

TEST_F(HostedSlicesTest, ANewHistoryBeginsOnceNoSliceIsLeft) {
  MakeLive(0);
  MakeLive(1);
  slices_.TakeChanges();
  slices_.DropAll();
  const std::vector<SliceChange> changes = slices_.TakeChanges();
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_FALSE(changes[0].none_left);
  EXPECT_TRUE(changes[1].none_left);
  EXPECT_EQ(slices_.Alive(SliceId(0)), nullptr);
}

TEST_F(HostedSlicesTest, AReplicaIsNotAlive) {
  HostedSlice* const hosted = slices_.Add({SliceId(3), kIncarnation, "", "", 4});
  hosted->is_replica = true;
  slices_.MakeLive(hosted, slices_.job().Make(hosted->order));
  EXPECT_EQ(slices_.Alive(SliceId(3)), nullptr);
  EXPECT_EQ(slices_.Find({SliceId(3), kIncarnation}), nullptr);
  EXPECT_EQ(slices_.replicas(), 1u);
  slices_.Promote(hosted, hosted->order);
  EXPECT_EQ(slices_.Find({SliceId(3), kIncarnation}), hosted);
  EXPECT_EQ(slices_.replicas(), 0u);
  EXPECT_EQ(slices_.Find({SliceId(3), Incarnation(8)}), nullptr);
  EXPECT_THAT(Kinds(), ElementsAre(Kind::kLive, Kind::kPromoted));
}

TEST_F(HostedSlicesTest, UpdatesTheLedgerOfASliceOnDemand) {
  HostedSlice* const hosted = MakeLive(0);
  Cut cut;
  cut.end = 8;
  cut.batch_size = 4;
  slices_.ledgers().SelectRun(cut, 1);
  slices_.ledgers().Record(0);
  slices_.Hot(SliceId(0)).ledger_outdated = true;
  EXPECT_EQ(hosted->slice->ledger.Lookup(cut, 1), Ledger::Entry::kNew);
  EXPECT_EQ(slices_.WithLedger(*hosted).ledger.Lookup(cut, 1), Ledger::Entry::kDuplicate);
}

TEST_F(HostedSlicesTest, KeepsCopiesAtAVersion) {
  HostedSlice* const first = MakeLive(0);
  HostedSlice* const second = MakeLive(1);
  EXPECT_FALSE(slices_.WantsCopy(*first));
  slices_.KeepAt({.id = 2, .version = 3});
  EXPECT_FALSE(slices_.WantsCopy(*first));
  first->slice->version = 3;
  ASSERT_TRUE(slices_.WantsCopy(*first));
  slices_.Keep(first, {});
  EXPECT_FALSE(slices_.WantsCopy(*first));
  EXPECT_FALSE(slices_.AllKept());
  second->saved = 2;  // by its former server
  EXPECT_TRUE(slices_.AllKept());
  first->slice->version = 4;
  EXPECT_EQ(first->kept->version, 3u);
  slices_.KeepNothing();
  EXPECT_EQ(first->kept, nullptr);
}

TEST_F(HostedSlicesTest, RefusesASliceOfAnotherJob) {
  const SliceOrder order{SliceId(0), kIncarnation, "c1", "s1", 0};
  slices_.Add(order);
  Slice slice =
      slices_.job().InMemory(SliceId(0), slices_.job().NewMemory(*slices_.job().BytesOf(SliceId(0))));
  slices_.OnLoaded(order, slice);  // it has no partitions
  ServerHeartbeat heartbeat;
  slices_.Report(&heartbeat);
  ASSERT_EQ(heartbeat.failed.size(), 1u);
  EXPECT_THAT(heartbeat.failure, HasSubstr("c1/s1"));
  EXPECT_EQ(slices_.live(), 0u);
}

}  // namespace
}  // namespace leat::protocol
