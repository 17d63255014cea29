#include "protocol/slices/slice_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace leat::protocol {
namespace {

using ::testing::ElementsAre;

const NodeId kOwner(1), kTaker(2), kThirdServer(3);

class SliceMapTest : public ::testing::Test {
 protected:
  SliceMapTest()
      : table_(MakeSlices({{"v", Shape{12 * 16}, {}}}, 1, 1)),
        map_(table_, 1, [this] { return Incarnation(++lives_); }) {
    map_.SetStart({{0, 5}});
  }

  // The heartbeat of a server whose slices have applied everything before `done`.
  ServerHeartbeat SendHeartbeat(NodeId server, uint64_t done, uint64_t events = 0) {
    ServerHeartbeat heartbeat;
    heartbeat.node = server;
    heartbeat.ledgers.push_back({{}, events, {{{0, done}, {}}}});
    for (const SliceOrder& order : map_.OrdersFor(server)) {
      heartbeat.ledgers[0].slices.push_back({order.slice, order.incarnation});
    }
    return heartbeat;
  }
  bool Report(NodeId server, uint64_t done, uint64_t events = 0) {
    return *map_.Report(SendHeartbeat(server, done, events), {});
  }

  SliceTable table_;
  uint64_t lives_ = 0;
  SliceMap map_;
};

TEST_F(SliceMapTest, IsReadyWhenEverySliceHasReportedItsIncarnation) {
  EXPECT_TRUE(map_.Locations().empty());
  map_.PlaceAll({kOwner, kTaker}, Place(table_, Placement::kPartitioned, 2));
  EXPECT_EQ(map_.OrdersFor(kOwner).size(), 6u);
  EXPECT_EQ(map_.OrdersFor(kTaker).size(), 6u);
  std::set<Incarnation> incarnations;
  for (Incarnation incarnation : map_.Incarnations()) incarnations.insert(incarnation);
  EXPECT_EQ(incarnations.size(), 12u) << "never given twice";
  EXPECT_TRUE(Report(kOwner, 5));
  EXPECT_FALSE(map_.ready());
  EXPECT_TRUE(Report(kTaker, 5));
  EXPECT_TRUE(map_.ready());
  EXPECT_FALSE(Report(kTaker, 6));
}

TEST_F(SliceMapTest, WatermarkIsTheLeastOfAll) {
  map_.PlaceAll({kOwner, kTaker}, Place(table_, Placement::kPartitioned, 2));
  Report(kOwner, 50, 45);
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 5})) << "some slices have not reported";
  EXPECT_EQ(map_.Events(), 0u);
  Report(kTaker, 30, 25);
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 30}));
  EXPECT_EQ(map_.Events(), 25u);
  Report(kTaker, 70, 65);
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 50}));
  Report(kTaker, 40, 35);
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 50})) << "a report that was overtaken on its way";
}

TEST_F(SliceMapTest, ASliceIsLiveWithTheLastPartOfItsFirstReport) {
  map_.PlaceAll({kOwner}, Place(table_, Placement::kPartitioned, 1));
  ServerHeartbeat part = SendHeartbeat(kOwner, 50, 45);
  part.ledgers[0].more = true;
  EXPECT_FALSE(*map_.Report(part, {}));
  EXPECT_FALSE(map_.ready());
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 5}));
  EXPECT_EQ(map_.Events(), 0u);
  part = SendHeartbeat(kOwner, 0, 45);
  part.ledgers[0].partitions.clear();
  EXPECT_TRUE(*map_.Report(part, {}));
  EXPECT_TRUE(map_.ready());
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 50})) << "of the first part";
  EXPECT_EQ(map_.Events(), 45u);
  part.ledgers[0].first_partition = 1;
  part.ledgers[0].partitions = {{{0, 60}, {}}};
  EXPECT_FALSE(*map_.Report(part, {})) << "a partition that the stream has not";
  part.ledgers[0].first_partition = ~0u;
  EXPECT_FALSE(*map_.Report(part, {}));
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 50}));
}

// Heartbeats overtake each other: half of one report and another one are no report.
TEST_F(SliceMapTest, AnEarlierReportDoesNotCompleteTheOneThatOvertookIt) {
  map_.PlaceAll({kOwner}, Place(table_, Placement::kPartitioned, 1));
  ServerHeartbeat part = SendHeartbeat(kOwner, 50, 45);
  part.report = 8;
  part.ledgers[0].more = true;
  EXPECT_FALSE(*map_.Report(part, {}));
  ServerHeartbeat earlier = SendHeartbeat(kOwner, 0, 0);
  earlier.report = 7;
  EXPECT_FALSE(*map_.Report(earlier, {}));
  EXPECT_FALSE(map_.ready());
  part.part = 1;
  part.ledgers[0].more = false;
  part.ledgers[0].partitions.clear();
  EXPECT_TRUE(*map_.Report(part, {}));
  EXPECT_TRUE(map_.ready());
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 50}));

  // A part that is repeated begins nothing that another report would complete.
  part = SendHeartbeat(kOwner, 60, 55);
  part.report = 8;
  part.ledgers[0].more = true;
  EXPECT_FALSE(*map_.Report(part, {}));
  ServerHeartbeat later = SendHeartbeat(kOwner, 52, 47);
  later.report = 9;
  EXPECT_FALSE(*map_.Report(later, {}));
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 52}));
}

// After a takeover a slice's ledger is reported by the server of its replica, unless that is lost. Its own
// server may have found that out from the start.
TEST_F(SliceMapTest, ASliceThatReturnsIsLiveWithoutTheReplicaThatItsServerHasLost) {
  std::vector<SliceAssignment> places;
  for (uint32_t i = 0; i < table_.slices.size(); ++i)
    places.push_back(
        {.slice = SliceId(i), .server = kOwner, .incarnation = Incarnation(i + 1), .replica = kTaker});
  for (const bool reported : {true, false}) {
    SliceMap map(table_, 1, [this] { return Incarnation(++lives_); });
    map.SetStart({{0, 5}});
    map.RestorePlaces(places, {kOwner, kTaker});
    ServerHeartbeat heartbeat;
    heartbeat.node = kOwner;
    heartbeat.ledgers.push_back({{}, 0, {{{0, 50}, {}}}});
    for (const auto& place : places) heartbeat.ledgers[0].slices.push_back({place.slice, place.incarnation});
    ServerHeartbeat nothing;
    nothing.node = kOwner;
    EXPECT_FALSE(*map.Report(reported ? heartbeat : nothing, {}));
    EXPECT_FALSE(map.ready());
    for (const auto& place : places) map.DropReplica(place.slice);
    EXPECT_EQ(map.ready(), reported) << "otherwise nothing is known of them";
    if (!reported) {
      EXPECT_TRUE(*map.Report(heartbeat, {}));
    }
    EXPECT_TRUE(map.ready());
    EXPECT_FALSE(*map.Report(nothing, {}));
    EXPECT_EQ(map.Watermarks()[0], (Position{0, 50}));
  }
}

TEST_F(SliceMapTest, NothingOfALaterReportCountsBeforeItsLastPart) {
  map_.PlaceAll({kOwner, kTaker}, Place(table_, Placement::kPartitioned, 2));
  Report(kOwner, 50);
  Report(kTaker, 50);
  ServerHeartbeat part = SendHeartbeat(kOwner, 70);
  part.ledgers[0].more = true;
  EXPECT_TRUE(map_.Report(part, {}).ok());
  Report(kTaker, 80);
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 50})) << "its slices are not at 70 as a whole";
  // Another server reports the slices of the first, because they move.
  ServerHeartbeat other = SendHeartbeat(kOwner, 60);
  other.node = kThirdServer;
  EXPECT_TRUE(map_.Report(other, {}).ok());
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 60}));
  other.ledgers[0].more = true;
  other.ledgers[0].partitions[0].done = {0, 75};
  EXPECT_TRUE(map_.Report(other, {}).ok());
  map_.ForgetParts(kThirdServer);
  part = SendHeartbeat(kOwner, 0);
  part.ledgers[0].partitions.clear();
  EXPECT_TRUE(map_.Report(part, {}).ok());
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 70}));
  other = SendHeartbeat(kOwner, 0);
  other.node = kThirdServer;
  other.ledgers[0].partitions.clear();
  EXPECT_TRUE(map_.Report(other, {}).ok());
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 70}))
      << "what was forgotten is not completed by another report";
}

TEST_F(SliceMapTest, OpenSplitsOfSeveralReportsAreKnownTogether) {
  map_.PlaceAll({kOwner}, Place(table_, Placement::kPartitioned, 1));
  Report(kOwner, 5);
  const auto cut_at = [](uint64_t offset) {
    Cut cut;
    cut.begin = cut.after = {0, offset};
    cut.end = offset + 20;
    cut.batch_size = 10;
    return cut;
  };
  const auto report = [&](const Cut& cut, uint32_t run) {
    ServerHeartbeat heartbeat = SendHeartbeat(kOwner, 5);
    RunSet runs(cut.runs());
    runs.Add(run);
    heartbeat.ledgers[0].partitions[0].open = {{cut, runs}};
    EXPECT_TRUE(map_.Report(heartbeat, {}).ok());
  };
  report(cut_at(25), 0);
  report(cut_at(45), 1);
  EXPECT_EQ(map_.Missing(cut_at(25)).count(), 1u);
  EXPECT_TRUE(map_.Missing(cut_at(25)).Has(1));
  EXPECT_FALSE(map_.Complete(cut_at(25)));
  report(cut_at(25), 1);
  EXPECT_TRUE(map_.Missing(cut_at(25)).empty());
  EXPECT_TRUE(map_.Complete(cut_at(25)));
  EXPECT_FALSE(map_.Complete(cut_at(45)));
  EXPECT_EQ(map_.Missing(cut_at(45)).count(), 1u);
  EXPECT_TRUE(map_.Missing(cut_at(45)).Has(0));
}

TEST_F(SliceMapTest, OtherSlicesAndFormerIncarnationsDoNotCount) {
  map_.PlaceAll({kOwner}, Place(table_, Placement::kPartitioned, 1));
  ServerHeartbeat heartbeat = SendHeartbeat(kOwner, 50);
  heartbeat.node = kTaker;
  EXPECT_FALSE(*map_.Report(heartbeat, {}));
  heartbeat = SendHeartbeat(kOwner, 50);
  for (SliceIncarnation& incarnation : heartbeat.ledgers[0].slices) ++incarnation.incarnation.value;
  EXPECT_FALSE(*map_.Report(heartbeat, {}));
  heartbeat = SendHeartbeat(kOwner, 50);
  heartbeat.ledgers[0].partitions.push_back({});
  EXPECT_FALSE(*map_.Report(heartbeat, {})) << "a partition that the stream has not";
  heartbeat = SendHeartbeat(kOwner, 50);
  heartbeat.ledgers[0].slices = {{SliceId(4000), Incarnation(1)}};
  EXPECT_FALSE(*map_.Report(heartbeat, {}));
  EXPECT_FALSE(map_.ready());
}

TEST_F(SliceMapTest, OrphansAreRestoredFromTheNewestCheckpointAsNewIncarnations) {
  map_.PlaceAll({kOwner, kTaker}, Place(table_, Placement::kPartitioned, 2));
  Report(kOwner, 50, 45);
  Report(kTaker, 50, 45);
  Manifest manifest;
  manifest.directory = "checkpoint-3";
  manifest.watermark = {{0, 40}};
  manifest.events = 35;
  for (NodeId server : {kOwner, kTaker}) {
    ManifestShard shard{"shard-" + ToString(server), 1, 77, {}};
    for (const SliceOrder& order : map_.OrdersFor(server))
      shard.slices.push_back({order.slice, order.incarnation});
    manifest.shards.push_back(shard);
  }
  map_.SetSource(manifest);
  const auto before = map_.Incarnations();
  const SliceId lost = map_.OrdersFor(kTaker)[0].slice;

  map_.Orphan(kTaker);
  EXPECT_FALSE(map_.ready());
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 40}));
  EXPECT_EQ(map_.Events(), 35u);
  EXPECT_THAT(map_.Orphaned(), ElementsAre(kTaker));
  EXPECT_EQ(map_.At(lost).server, NodeId());
  map_.Adopt(kTaker, {kThirdServer});
  EXPECT_TRUE(map_.Orphaned().empty());
  const auto orders = map_.OrdersFor(kThirdServer);
  ASSERT_EQ(orders.size(), 6u);
  EXPECT_EQ(orders[0].slice, lost);
  EXPECT_EQ(orders[0].directory, "checkpoint-3");
  EXPECT_EQ(orders[0].file, "shard-2");
  EXPECT_EQ(orders[0].file_checksum, 77u);
  EXPECT_GT(orders[0].incarnation, before[lost.value]);
  Report(kThirdServer, 42);
  EXPECT_TRUE(map_.ready());
  EXPECT_EQ(map_.Watermarks()[0], (Position{0, 42}));

  EXPECT_TRUE(map_.RestoreAgain(before));
  EXPECT_GT(map_.At(lost).incarnation, orders[0].incarnation);
  EXPECT_FALSE(map_.ready());
  EXPECT_FALSE(map_.RestoreAgain(map_.Incarnations()));
}

TEST_F(SliceMapTest, OrphansSpreadOverThoseLeftByBytes) {
  map_.PlaceAll({kOwner, kTaker, kThirdServer}, Place(table_, Placement::kPartitioned, 3));
  map_.Orphan(kThirdServer);
  map_.Adopt(kThirdServer, {kOwner, kTaker});
  EXPECT_EQ(map_.OrdersFor(kOwner).size(), 6u);
  EXPECT_EQ(map_.OrdersFor(kTaker).size(), 6u);
}

TEST_F(SliceMapTest, ASliceThatCannotBeHadIsOrderedAFewTimes) {
  map_.PlaceAll({kOwner}, Place(table_, Placement::kPartitioned, 1));
  std::set<Incarnation> incarnations;
  for (uint32_t i = 0; i < SliceMap::kMaxFailures; ++i) {
    ServerHeartbeat heartbeat;
    heartbeat.node = kOwner;
    heartbeat.failed = {{SliceId(4), map_.At(SliceId(4)).incarnation}};
    heartbeat.failure = "flipped bit";
    EXPECT_TRUE(incarnations.insert(map_.At(SliceId(4)).incarnation).second);
    const auto reported = map_.Report(heartbeat, {kOwner});
    if (i + 1 < SliceMap::kMaxFailures) {
      EXPECT_TRUE(*reported);
      EXPECT_FALSE(*map_.Report(heartbeat, {kOwner})) << "reported twice in one incarnation";
    } else {
      EXPECT_EQ(reported.status().code(), Code::kDataLoss);
      EXPECT_NE(reported.status().message().find("flipped bit"), std::string::npos);
    }
  }
}

TEST_F(SliceMapTest, ASliceThatAServerCannotRestoreGoesToAnother) {
  map_.PlaceAll({kOwner, kTaker}, Place(table_, Placement::kPartitioned, 2));
  const SliceId slice = map_.OrdersFor(kOwner)[0].slice;
  const auto fail = [&] {
    ServerHeartbeat heartbeat;
    heartbeat.node = map_.At(slice).server;
    heartbeat.failed = {{slice, map_.At(slice).incarnation}};
    heartbeat.failure = "flipped bit";
    return map_.Report(heartbeat, {kOwner, kTaker, kThirdServer});
  };
  std::vector<NodeId> servers;
  for (uint32_t i = 0; i + 1 < 3 * SliceMap::kMaxFailures; ++i) {
    servers.push_back(map_.At(slice).server);
    ASSERT_TRUE(*fail());
  }
  servers.push_back(map_.At(slice).server);
  EXPECT_THAT(servers, ElementsAre(kOwner, kOwner, kOwner, kThirdServer, kThirdServer, kThirdServer, kTaker,
                                   kTaker, kTaker))
      << "the one with the fewest bytes first";
  const Status failed = fail().status();
  EXPECT_EQ(failed.code(), Code::kDataLoss);
  EXPECT_NE(failed.message().find("nor on any other: flipped bit"), std::string::npos);
}

TEST_F(SliceMapTest, AServerThatRestoredASliceOnceIsTriedAgain) {
  map_.PlaceAll({kOwner, kTaker}, Place(table_, Placement::kPartitioned, 2));
  const SliceId slice = map_.OrdersFor(kOwner)[0].slice;
  const auto fail = [&] {
    ServerHeartbeat heartbeat;
    heartbeat.node = map_.At(slice).server;
    heartbeat.failed = {{slice, map_.At(slice).incarnation}};
    return map_.Report(heartbeat, {kOwner, kTaker});
  };
  for (uint32_t i = 0; i < SliceMap::kMaxFailures; ++i) ASSERT_TRUE(*fail());
  EXPECT_EQ(map_.At(slice).server, kTaker);
  Report(kTaker, 5);
  map_.Orphan(kTaker);
  map_.Adopt(kTaker, {kOwner});
  Report(kOwner, 5);
  EXPECT_TRUE(map_.ready());
  map_.RestoreAll();
  for (uint32_t i = 0; i < SliceMap::kMaxFailures; ++i) ASSERT_TRUE(*fail());
  EXPECT_EQ(map_.At(slice).server, kTaker);
}

}  // namespace
}  // namespace leat::protocol
