#include "protocol/server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"

namespace leat::protocol {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

const NodeId kServer(1), kPusher(2);

// Two variables of 12 slices in all, on one server.
class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { Make(optim::Kind::kSgd); }

  void Make(optim::Kind kind) { Make({.kind = kind, .learning_rate = 1}); }
  void Make(const optim::OptimizerConfig& optimizer) {
    ServerConfig config;
    optim::InitSpec five;
    five.kind = optim::InitKind::kConstant;
    five.value = 5;
    config.table = MakeSlices({{"w", Shape{10, 20}, five}, {"b", Shape{20}, {}}}, 1, 1);
    config.optimizer = optimizer;
    config.strategy = strategy_;
    config.allocate = allocate_;
    config.saved = saved_;
    table_ = config.table;
    server_ = std::make_unique<Server>(config);
    server_->OnJoined(kServer);
  }

  View MakeView(uint64_t generation, std::vector<NodeId> workers = {kPusher}) {
    View view;
    view.generation = Generation(generation);
    view.members.push_back({kServer, Role::kServer, 0, "here"});
    for (NodeId worker : workers) view.members.push_back({worker, Role::kWorker, 0, ""});
    return view;
  }

  ServerHeartbeatReply Orders(uint64_t incarnation, const std::string& directory = "") {
    ServerHeartbeatReply reply;
    reply.view = MakeView(10);
    reply.start = {{0, 0}, {0, 100}};
    for (uint32_t i = 0; i < table_.slices.size(); ++i) {
      reply.orders.push_back({SliceId(i), Incarnation(incarnation), directory, "shard", 0});
    }
    return reply;
  }

  PushRequest Push(uint32_t batch, uint32_t events = 8, std::vector<uint32_t> slices = {0}) {
    PushRequest request;
    request.sequence = ++sequence_;
    request.worker = kPusher;
    request.generation = Generation(10);
    request.disposition = Disposition::kGradient;
    request.cut.end = 80;
    request.cut.batch_size = 8;
    request.run = batch;
    request.events = events;
    for (uint32_t i : slices) request.slices.push_back({SliceId(i), Incarnation(7), 0});
    return request;
  }

  PushReply Take(const PushRequest& request, float gradient = 1) {
    std::vector<uint64_t> elements;
    const Status begun = server_->Begin(request, &elements);
    EXPECT_TRUE(begun.ok()) << begun.ToString();
    std::vector<SliceReply> replies;
    for (size_t i = 0; i < request.slices.size(); ++i) {
      replies.push_back(server_->Apply(request, i, std::vector<float>(elements[i], gradient)));
    }
    return *server_->Finish(0, request, std::move(replies));
  }

  StrategyConfig strategy_;
  Allocate allocate_;
  std::function<bool(const Slice&)> saved_;
  SliceTable table_;
  std::unique_ptr<Server> server_;
  uint64_t sequence_ = 0;
};

TEST_F(ServerTest, MakesSlicesAnewWithInitialValuesAndTellsAtOnce) {
  EXPECT_FALSE(server_->HeartbeatUrgent());
  EXPECT_TRUE(server_->MakeHeartbeat().ledgers.empty());
  EXPECT_TRUE(server_->OnHeartbeatReply(Orders(7)).empty());
  EXPECT_TRUE(server_->HeartbeatUrgent());
  const ServerHeartbeat heartbeat = server_->MakeHeartbeat();
  EXPECT_FALSE(server_->HeartbeatUrgent());
  EXPECT_EQ(heartbeat.node, kServer);
  EXPECT_EQ(heartbeat.generation, Generation(10));
  ASSERT_EQ(heartbeat.ledgers.size(), 1u) << "all ledgers are equal";
  EXPECT_EQ(heartbeat.ledgers[0].slices.size(), table_.slices.size());
  EXPECT_EQ(heartbeat.ledgers[0].slices[3], (SliceIncarnation{SliceId(3), Incarnation(7)}));
  EXPECT_EQ(heartbeat.ledgers[0].partitions, Ledger(std::vector<Position>{{0, 0}, {0, 100}}).partitions());
  EXPECT_THAT(server_->Find(SliceId(0))->values(), Each(5.0f));
  EXPECT_EQ(heartbeat.progress.bytes_held, 220 * sizeof(float));
}

TEST_F(ServerTest, AppliesABatchOnce) {
  server_->OnHeartbeatReply(Orders(7));
  const PushRequest push = Push(3, 8, {0, 5});
  PushReply reply = Take(push);
  EXPECT_EQ(reply.sequence, push.sequence);
  EXPECT_EQ(reply.generation, Generation(10));
  EXPECT_FALSE(reply.evicted);
  ASSERT_EQ(reply.slices.size(), 2u);
  for (const SliceReply& slice : reply.slices) {
    EXPECT_EQ(slice.outcome, SliceOutcome::kApplied);
    EXPECT_EQ(slice.version, 1u);
    EXPECT_TRUE(slice.values);
    EXPECT_THAT(server_->Values(slice.slice, 0).values, Each(4.0f));
  }
  reply = Take(push);
  EXPECT_EQ(reply.slices[0].outcome, SliceOutcome::kDuplicate);
  EXPECT_EQ(reply.slices[0].version, 1u);
  EXPECT_TRUE(reply.slices[0].values) << "the first answer may have been lost";
  EXPECT_THAT(server_->Values(SliceId(0), 0).values, Each(4.0f));
  EXPECT_EQ(server_->Find(SliceId(0))->events, 8u);

  const ServerHeartbeat heartbeat = server_->MakeHeartbeat();
  EXPECT_EQ(heartbeat.ledgers.size(), 2u) << "two slices hold a batch that the others lack";
  EXPECT_EQ(heartbeat.progress.duplicates, 2u);
  EXPECT_EQ(heartbeat.progress.pushes, 2u);
}

TEST_F(ServerTest, NotesEmptyAndRejectedBatchesWithoutApplying) {
  server_->OnHeartbeatReply(Orders(7));
  PushRequest push = Push(0, 0);
  push.disposition = Disposition::kEmpty;
  EXPECT_EQ(Take(push).slices[0].outcome, SliceOutcome::kApplied);
  push = Push(1, 5);
  push.disposition = Disposition::kRejected;
  EXPECT_EQ(Take(push).slices[0].outcome, SliceOutcome::kApplied);
  EXPECT_EQ(Take(push).slices[0].outcome, SliceOutcome::kDuplicate);
  const Slice* slice = server_->Find(SliceId(0));
  EXPECT_THAT(slice->values(), Each(5.0f));
  EXPECT_EQ(slice->version, 0u);
  EXPECT_EQ(slice->events, 0u);
  EXPECT_EQ(slice->ledger.Held(push.cut).count(), 2u);
}

TEST_F(ServerTest, APullChangesNothing) {
  server_->OnHeartbeatReply(Orders(7));
  const Ledger before = server_->Find(SliceId(1))->ledger;
  PushRequest pull;
  pull.worker = kPusher;
  pull.generation = Generation(10);
  pull.slices = {{SliceId(1), Incarnation(7), 0}};
  const PushReply reply = Take(pull);
  EXPECT_EQ(reply.slices[0].outcome, SliceOutcome::kPulled);
  EXPECT_TRUE(reply.slices[0].values);
  EXPECT_EQ(server_->Find(SliceId(1))->ledger, before);
  EXPECT_EQ(server_->MakeHeartbeat().progress.pulls, 1u);
}

TEST_F(ServerTest, MeasuresStaleness) {
  server_->OnHeartbeatReply(Orders(7));
  for (uint32_t batch = 0; batch < 4; ++batch) Take(Push(batch));  // each computed from version 0
  PushRequest from_the_future = Push(4);
  from_the_future.slices[0].version = 1000;
  Take(from_the_future);
  const ServerProgress progress = server_->MakeHeartbeat().progress;
  EXPECT_EQ(progress.staleness_count, 5u);
  EXPECT_EQ(progress.staleness_sum, 0u + 1 + 2 + 3 + 0);
  EXPECT_THAT(std::vector<uint64_t>(progress.staleness.begin(), progress.staleness.begin() + 5),
              ElementsAre(2, 1, 1, 1, 0));
}

TEST_F(ServerTest, TheRateIsDividedByTheStalenessWhereItIsToBe) {
  for (const bool aware : {false, true}) {
    strategy_.staleness_aware = aware;
    Make({.kind = optim::Kind::kSgd, .learning_rate = 0.25f});
    server_->OnHeartbeatReply(Orders(7));
    // Each computed from version 0: staleness 0, 1, 2, 3 and 4.
    float expected = 5;
    for (uint32_t batch = 0; batch < 5; ++batch) {
      Take(Push(batch));
      const float scale = aware && batch > 1 ? 1.0f / static_cast<float>(batch) : 1.0f;
      expected -= 0.25f * scale;
      EXPECT_THAT(server_->Values(SliceId(0), 0).values, Each(expected)) << batch;
    }
  }
}

TEST_F(ServerTest, ARunIsAppliedAtTheRateThatItComesWith) {
  strategy_.staleness_aware = true;
  Make({.kind = optim::Kind::kSgd, .learning_rate = 0.25f});
  server_->OnHeartbeatReply(Orders(7));
  PushRequest push = Push(0);
  push.rate = 3;
  Take(push);
  EXPECT_THAT(server_->Values(SliceId(0), 0).values, Each(5 - 0.75f));
  Take(push);
  EXPECT_THAT(server_->Values(SliceId(0), 0).values, Each(5 - 0.75f)) << "once";
  Take(Push(1));
  EXPECT_THAT(server_->Values(SliceId(0), 0).values, Each(5 - 1.0f));
  push = Push(2);
  push.rate = 4;
  Take(push);
  EXPECT_THAT(server_->Values(SliceId(0), 0).values, Each(5 - 1.5f)) << "half of it, by its staleness of 2";
  for (const float rate : {0.0f, -1.0f, 1001.0f, std::nanf("")}) {
    push = Push(3);
    push.rate = rate;
    EXPECT_EQ(server_->Begin(push).code(), Code::kInvalidArgument) << rate;
  }
}

TEST_F(ServerTest, CountsRunsInARowThatWereNotFinite) {
  server_->OnHeartbeatReply(Orders(7));
  const auto rejected = [&](uint32_t batch) {
    PushRequest push = Push(batch, 3, {0, 5});
    push.disposition = Disposition::kRejected;
    return push;
  };
  Take(rejected(0));
  Take(rejected(0));  // once
  Take(rejected(1));
  ServerHeartbeat heartbeat = server_->MakeHeartbeat();
  EXPECT_EQ(heartbeat.consecutive_rejected, 2u);
  EXPECT_EQ(heartbeat.progress.skipped, 2u);
  EXPECT_EQ(heartbeat.rejected, (RejectedRun{kPusher, rejected(1).cut, 1}));
  Take(Push(2));
  Take(rejected(3));
  Take(Push(2));  // a duplicate does not count
  heartbeat = server_->MakeHeartbeat();
  EXPECT_EQ(heartbeat.consecutive_rejected, 1u);
  EXPECT_EQ(heartbeat.progress.skipped, 3u);
}

TEST_F(ServerTest, AnotherIncarnationOfASliceIsNotHere) {
  server_->OnHeartbeatReply(Orders(7));
  PushRequest push = Push(0);
  push.slices[0].incarnation = Incarnation(6);
  const SliceReply reply = Take(push).slices[0];
  EXPECT_EQ(reply.outcome, SliceOutcome::kNotHere);
  EXPECT_FALSE(reply.values);
  EXPECT_TRUE(server_->Find(SliceId(0))->ledger.Held(push.cut).empty());
}

TEST_F(ServerTest, ACutThatContradictsTheLedgerIsAConflict) {
  server_->OnHeartbeatReply(Orders(7));
  Take(Push(0));
  PushRequest push = Push(0);
  push.cut.hash = 99;
  const SliceReply reply = Take(push).slices[0];
  EXPECT_EQ(reply.outcome, SliceOutcome::kConflict);
  EXPECT_FALSE(reply.values);
  EXPECT_EQ(server_->MakeHeartbeat().progress.conflicts, 1u);
}

TEST_F(ServerTest, OnlyMembersOfTheViewCount) {
  server_->OnHeartbeatReply(Orders(7));
  PushRequest push = Push(0);
  push.worker = NodeId(99);
  PushReply reply = Take(push);
  EXPECT_TRUE(reply.evicted);
  EXPECT_EQ(reply.slices[0].outcome, SliceOutcome::kNotHere);
  EXPECT_TRUE(server_->Find(SliceId(0))->ledger.Held(push.cut).empty());

  push.generation = Generation(11);  // generation of a view newer than the server's
  reply = Take(push);
  EXPECT_FALSE(reply.evicted);
  EXPECT_EQ(reply.slices[0].outcome, SliceOutcome::kApplied);
}

TEST_F(ServerTest, RefusesHeadersThatContradictThemselves) {
  const auto refused = [&](auto change) {
    PushRequest push = Push(3, 8, {0, 5});
    change(&push);
    return server_->Begin(push).code() == Code::kInvalidArgument;
  };
  for (bool placed : {false, true}) {
    if (placed) server_->OnHeartbeatReply(Orders(7));
    EXPECT_FALSE(refused([](PushRequest*) {}));
    EXPECT_TRUE(refused([](PushRequest* p) { p->slices[1].slice = SliceId(12); }));
    EXPECT_TRUE(refused([](PushRequest* p) { p->slices[1].slice = SliceId(0); }));
    EXPECT_TRUE(refused([](PushRequest* p) { std::swap(p->slices[0], p->slices[1]); }));
    EXPECT_TRUE(refused([](PushRequest* p) { p->run = 10; }));
    EXPECT_TRUE(refused([](PushRequest* p) { p->events = 9; }));
    EXPECT_TRUE(refused([](PushRequest* p) { p->events = 0; }));
    EXPECT_TRUE(refused([](PushRequest* p) { p->cut.end = 0; }));
    EXPECT_TRUE(refused([](PushRequest* p) { p->cut.batch_size = 0; }));
    EXPECT_TRUE(refused([](PushRequest* p) { p->disposition = static_cast<Disposition>(9); }));
    EXPECT_TRUE(refused([](PushRequest* p) { p->disposition = Disposition::kEmpty; }))
        << "empty, of 8 events";
    EXPECT_EQ(refused([](PushRequest* p) { p->cut.partition = 2; }), placed);
  }
  PushRequest last = Push(9, 8);
  last.cut.end = 75;  // its last batch has three events
  EXPECT_FALSE(server_->Begin(last).ok());
  last.events = 3;
  EXPECT_TRUE(server_->Begin(last).ok());
}

TEST_F(ServerTest, SurvivesRandomRequests) {
  server_->OnHeartbeatReply(Orders(7));
  Rng rng(1);
  for (int round = 0; round < 20000; ++round) {
    const auto some = [&](uint64_t likely) { return rng.Chance(0.7) ? rng.Below(likely + 1) : rng(); };
    PushRequest push;
    push.worker = NodeId(some(3));
    push.generation = Generation(some(12));
    push.disposition = static_cast<Disposition>(some(4));
    push.cut.partition = static_cast<uint32_t>(some(2));
    push.cut.begin = {static_cast<uint32_t>(some(1)), some(100)};
    push.cut.after = rng.Chance(0.8) ? push.cut.begin : Position{static_cast<uint32_t>(some(1)), some(100)};
    push.cut.end = push.cut.begin.offset + some(100);
    push.cut.batch_size = static_cast<uint32_t>(some(20));
    push.run = static_cast<uint32_t>(some(5));
    push.events = static_cast<uint32_t>(some(10));
    for (uint32_t i = 0; i < 12; ++i) {
      if (rng.Chance(0.2))
        push.slices.push_back({SliceId(rng.Chance(0.99) ? i : 77), Incarnation(7), some(5)});
    }
    if (server_->Begin(push).ok()) Take(push);
  }
}

TEST_F(ServerTest, OrdersDecideWhichSlicesAreHosted) {
  server_->OnHeartbeatReply(Orders(7));
  Take(Push(0));
  ServerHeartbeatReply reply = Orders(7);
  reply.orders.erase(reply.orders.begin() + 1);
  reply.orders[1].incarnation = Incarnation(8);  // slice 2, initialized again
  server_->OnHeartbeatReply(reply);
  EXPECT_EQ(server_->Find(SliceId(1)), nullptr);
  EXPECT_EQ(server_->Find(SliceId(2))->incarnation, Incarnation(8));
  EXPECT_EQ(server_->Find(SliceId(0))->version, 1u) << "what stays is untouched";
}

// A slice that is ordered away between its Apply and Finish must not be sent.
TEST_F(ServerTest, ValuesOfASliceThatWentAreNotPromised) {
  server_->OnHeartbeatReply(Orders(7));
  const PushRequest push = Push(0, 8, {0, 1});
  ASSERT_TRUE(server_->Begin(push).ok());
  std::vector<SliceReply> replies;
  for (size_t i = 0; i < 2; ++i) {
    const size_t n = table_.slices[i].elements();
    replies.push_back(server_->Apply(push, i, std::vector<float>(n, 1)));
  }
  ServerHeartbeatReply orders = Orders(7);
  orders.orders.erase(orders.orders.begin());
  server_->OnHeartbeatReply(orders);
  const PushReply reply = *server_->Finish(0, push, std::move(replies));
  EXPECT_FALSE(reply.slices[0].values);
  EXPECT_TRUE(reply.slices[1].values);
}

TEST_F(ServerTest, SavesTheMomentThoughPushesGoOn) {
  Make(optim::Kind::kMomentum);
  server_->OnHeartbeatReply(Orders(7));
  Take(Push(0));
  ServerHeartbeatReply reply = Orders(7);
  reply.checkpoint = CheckpointOrder{4, "checkpoint-4"};
  auto actions = server_->OnHeartbeatReply(reply);
  ASSERT_EQ(actions.size(), 1u);
  const auto save = std::get<SaveShard>(actions[0]);
  EXPECT_EQ(save.order, *reply.checkpoint);
  ASSERT_EQ(save.slices.size(), 12u);
  std::vector<uint64_t> sizes;
  for (const auto& slice : save.slices) sizes.push_back(slice->memory.size());
  EXPECT_EQ(server_->BytesToSave(), sizes);
  EXPECT_TRUE(server_->OnHeartbeatReply(reply).empty()) << "ordered once, repeated until it is reported";

  Take(Push(1));
  EXPECT_EQ(server_->Find(SliceId(0))->version, 2u);
  EXPECT_EQ(save.slices[0]->version, 1u);
  EXPECT_THAT(save.slices[0]->values(), Each(4.0f));
  EXPECT_THAT(save.slices[0]->slot(0), Each(1.0f));
  EXPECT_EQ(save.slices[0]->ledger.Held(Push(0).cut).count(), 1u);

  reply.checkpoint = CheckpointOrder{5, "checkpoint-5"};
  EXPECT_TRUE(server_->OnHeartbeatReply(reply).empty()) << "one shard at a time";
  ShardReport wrong, report;
  wrong.checkpoint = 3;
  server_->OnShardSaved(wrong);
  EXPECT_FALSE(server_->MakeHeartbeat().shard);
  report.checkpoint = 4;
  report.file = "f";
  server_->OnShardSaved(report);
  EXPECT_TRUE(server_->HeartbeatUrgent());
  const auto shard = server_->MakeHeartbeat().shard;
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->file, "f");
  EXPECT_EQ(shard->slices.size(), 12u);
  EXPECT_EQ(std::get<SaveShard>(server_->OnHeartbeatReply(reply).at(0)).order.id, 5u);
  EXPECT_FALSE(server_->MakeHeartbeat().shard) << "not under the newer order";
}

TEST_F(ServerTest, LoadsSlicesOrTellsWhyNot) {
  server_->OnHeartbeatReply(Orders(7));
  Take(Push(0));
  Slice saved = *server_->Find(SliceId(0));
  auto actions = server_->OnHeartbeatReply(Orders(8, "checkpoint-1"));
  const auto load = std::get<LoadSlices>(actions.at(0));
  ASSERT_EQ(load.orders.size(), 12u);
  EXPECT_EQ(server_->Find(SliceId(0)), nullptr);
  EXPECT_TRUE(server_->OnHeartbeatReply(Orders(8, "checkpoint-1")).empty()) << "one read an order";
  EXPECT_TRUE(server_->MakeHeartbeat().ledgers.empty());

  SliceOrder outdated = load.orders[0];
  outdated.incarnation = Incarnation(7);
  server_->OnSliceLoaded(outdated, saved);
  EXPECT_EQ(server_->Find(SliceId(0)), nullptr);
  server_->OnSliceLoaded(load.orders[0], saved);
  ASSERT_NE(server_->Find(SliceId(0)), nullptr);
  EXPECT_EQ(server_->Find(SliceId(0))->incarnation, Incarnation(8));
  EXPECT_EQ(server_->Find(SliceId(0))->version, 1u);

  server_->OnSliceLoaded(load.orders[1], Status(Code::kDataLoss, "flipped bit"));
  Slice other = saved;
  other.elements = 3;
  server_->OnSliceLoaded(load.orders[2], other);
  Slice partitions = saved;
  partitions.ledger = Ledger(std::vector<Position>{{0, 0}});
  server_->OnSliceLoaded(load.orders[3], partitions);
  const ServerHeartbeat heartbeat = server_->MakeHeartbeat();
  EXPECT_THAT(heartbeat.failed, ElementsAre(SliceIncarnation{SliceId(1), Incarnation(8)},
                                            SliceIncarnation{SliceId(2), Incarnation(8)},
                                            SliceIncarnation{SliceId(3), Incarnation(8)}));
  EXPECT_NE(heartbeat.failure.find("checkpoint-1/shard"), std::string::npos) << heartbeat.failure;
  ASSERT_EQ(heartbeat.ledgers.size(), 1u);
  EXPECT_THAT(heartbeat.ledgers[0].slices, ElementsAre(SliceIncarnation{SliceId(0), Incarnation(8)}));
}

TEST_F(ServerTest, SlicesLieInMemoryOfTheGivenKindHoweverTheyCame) {
  std::vector<Buffer> given;
  allocate_ = [&](size_t bytes) { return given.emplace_back(bytes); };
  Make(optim::Kind::kSgd);
  server_->OnHeartbeatReply(Orders(7));
  ASSERT_EQ(given.size(), table_.slices.size()) << "each made where it stays";
  const auto at = [&](const Slice& slice) { return slice.memory.data(); };
  EXPECT_EQ(at(*server_->Find(SliceId(0))), given[0].data());

  Slice read = *server_->Find(SliceId(0));
  read.memory = Buffer(read.memory.size());
  std::ranges::fill(read.values(), 3.0f);
  const auto orders = Orders(8, "checkpoint-1");
  server_->OnHeartbeatReply(orders);
  server_->OnSliceLoaded(orders.orders[0], read);
  EXPECT_EQ(at(*server_->Find(SliceId(0))), given.back().data());
  EXPECT_THAT(server_->Find(SliceId(0))->values(), Each(3.0f));

  ServerHeartbeatReply reply = Orders(8, "checkpoint-1");
  reply.checkpoint = CheckpointOrder{4, "checkpoint-4"};
  const auto save = std::get<SaveShard>(server_->OnHeartbeatReply(reply).at(0));
  PushRequest push = Push(0);
  push.slices[0].incarnation = Incarnation(8);
  Take(push);
  EXPECT_EQ(at(*server_->Find(SliceId(0))), given.back().data()) << "not the one that is being saved";
  EXPECT_NE(at(*server_->Find(SliceId(0))), at(*save.slices[0]));
  EXPECT_THAT(server_->Find(SliceId(0))->values(), Each(2.0f));
  EXPECT_EQ(given.size(), table_.slices.size() + 2);
}

TEST_F(ServerTest, ASliceThatHasBeenReadIsUpdatedInPlaceAlthoughItsShardIsNotThereYet) {
  server_->OnHeartbeatReply(Orders(7));
  ServerHeartbeatReply reply = Orders(7);
  reply.checkpoint = CheckpointOrder{4, "checkpoint-4"};
  const auto save = std::get<SaveShard>(server_->OnHeartbeatReply(reply).at(0));
  server_->OnSlicesRead(3);  // another checkpoint
  const std::byte* const first = server_->Find(SliceId(0))->memory.data();
  Take(Push(0));
  const std::byte* const second = server_->Find(SliceId(0))->memory.data();
  EXPECT_NE(second, first) << "the shard still reads it";
  reply.checkpoint = CheckpointOrder{5, "checkpoint-5"};
  EXPECT_TRUE(server_->OnHeartbeatReply(reply).empty()) << "one shard at a time";
  ShardReport report;
  report.checkpoint = 4;
  server_->OnShardSaved(report);
  (void)std::get<SaveShard>(server_->OnHeartbeatReply(reply).at(0));
  server_->OnSlicesRead(5);
  Take(Push(1));
  EXPECT_EQ(server_->Find(SliceId(0))->memory.data(), second);
  report.checkpoint = 5;
  server_->OnShardSaved(report);
  EXPECT_EQ(server_->MakeHeartbeat().shard->slices.size(), save.slices.size());
}

TEST_F(ServerTest, AnUpdateAsksOnceWhetherItsSliceHasBeenSaved) {
  std::vector<SliceId> asked;
  bool saved = true;
  saved_ = [&](const Slice& slice) {
    asked.push_back(slice.id);
    return saved;
  };
  Make(optim::Kind::kSgd);
  server_->OnHeartbeatReply(Orders(7));
  Take(Push(0));
  EXPECT_TRUE(asked.empty()) << "nothing is being saved";
  ServerHeartbeatReply reply = Orders(7);
  reply.checkpoint = CheckpointOrder{4, "checkpoint-4"};
  const auto save = std::get<SaveShard>(server_->OnHeartbeatReply(reply).at(0));
  const auto at = [&](uint32_t i) { return server_->Find(SliceId(i))->memory.data(); };
  Take(Push(1));
  EXPECT_EQ(at(0), save.slices[0]->memory.data()) << "it is in the file by now";
  saved = false;
  Take(Push(2, 8, {0, 1}));
  EXPECT_EQ(at(0), save.slices[0]->memory.data());
  EXPECT_NE(at(1), save.slices[1]->memory.data());
  EXPECT_EQ(asked, (std::vector<SliceId>{SliceId(0), SliceId(1)}));
}

TEST_F(ServerTest, StopsOnOrder) {
  server_->OnHeartbeatReply(Orders(7));
  ServerHeartbeatReply stop = Orders(7);
  stop.stop = true;
  EXPECT_FALSE(std::get<StopRole>(server_->OnHeartbeatReply(stop).at(0)).evicted);
  ServerHeartbeatReply evicted;
  evicted.evicted = true;
  EXPECT_TRUE(std::get<StopRole>(server_->OnHeartbeatReply(evicted).at(0)).evicted);
  EXPECT_EQ(server_->Find(SliceId(0)), nullptr);
}

// Pushes have the same result as the optimizer applied directly.
TEST_F(ServerTest, OptimizersKeepTheirStateInTheSlice) {
  using optim::Kind;
  for (const Kind kind :
       {Kind::kMomentum, Kind::kNesterov, Kind::kAdagrad, Kind::kRmsprop, Kind::kAdam, Kind::kAdamW}) {
    optim::OptimizerConfig optimizer = optim::Defaults(kind);
    optimizer.weight_decay = 0.1f;
    optimizer.schedule = {.type = optim::Schedule::Type::kCosine, .warmup = 2, .steps = 6};
    Make(optimizer);
    server_->OnHeartbeatReply(Orders(7));
    const auto slots = optim::SlotNames(optimizer).size();
    const size_t n = table_.slices[0].elements();
    std::vector<float> values(n, 5);
    std::vector<std::vector<float>> state;
    for (size_t i = 0; i < slots; ++i) state.emplace_back(n, optim::InitialSlot(optimizer, i));
    const std::vector<std::span<float>> spans(state.begin(), state.end());
    for (uint32_t batch = 0; batch < 8; ++batch) {
      Take(Push(batch), 0.5f);
      optim::Apply(optimizer, values, std::vector<float>(n, 0.5f), spans, batch + 1, 1.0f);
    }
    EXPECT_THAT(server_->Values(SliceId(0), 0).values, ::testing::ElementsAreArray(values));
    for (uint32_t i = 0; i < slots; ++i) {
      EXPECT_THAT(server_->Find(SliceId(0))->slot(i), ::testing::ElementsAreArray(state[i]));
    }
  }
}

// A restored slice keeps its update count, so that warm-up and bias correction continue.
TEST_F(ServerTest, AScheduleContinuesWhereTheSliceWasSaved) {
  optim::OptimizerConfig optimizer = optim::Defaults(optim::Kind::kAdam);
  optimizer.schedule = {.type = optim::Schedule::Type::kLinear, .warmup = 3, .steps = 9};
  Make(optimizer);
  server_->OnHeartbeatReply(Orders(7));
  for (uint32_t batch = 0; batch < 4; ++batch) Take(Push(batch));
  Slice saved = *server_->Find(SliceId(0));
  saved.memory = Buffer(saved.memory.size());
  std::ranges::copy(server_->Find(SliceId(0))->memory.bytes(), saved.memory.bytes().begin());
  for (uint32_t batch = 4; batch < 8; ++batch) Take(Push(batch));
  const auto through = server_->Values(SliceId(0), 0).values;
  const std::vector<float> expected(through.begin(), through.end());

  Make(optimizer);
  const auto orders = Orders(7, "checkpoint-000001");
  server_->OnHeartbeatReply(orders);
  server_->OnSliceLoaded(orders.orders[0], std::move(saved));
  for (uint32_t batch = 4; batch < 8; ++batch) Take(Push(batch));
  EXPECT_EQ(server_->Find(SliceId(0))->version, 8u);
  EXPECT_THAT(server_->Values(SliceId(0), 0).values, ::testing::ElementsAreArray(expected));
}

TEST_F(ServerTest, AStatisticIsSubtractedAsItIs) {
  ServerConfig config;
  optim::InitSpec five;
  five.kind = optim::InitKind::kConstant;
  five.value = 5;
  config.table = MakeSlices(
      {{"w", Shape{20}, five}, {"mean", Shape{4}, five, optim::VariableRole::kStatistic}}, 1, 1, 1 << 20);
  config.optimizer = optim::Defaults(optim::Kind::kAdamW);
  config.optimizer.schedule.warmup = 1000;
  table_ = config.table;
  server_ = std::make_unique<Server>(config);
  server_->OnJoined(kServer);
  server_->OnHeartbeatReply(Orders(7));
  const auto statistic = static_cast<uint32_t>(table_.slices.size() - 1);
  ASSERT_EQ(table_.slices[statistic].variable, 1u);
  Take(Push(0, 8, {0, statistic}), 0.5f);
  EXPECT_THAT(server_->Values(SliceId(statistic), 0).values, Each(4.5f));
  PushRequest raised = Push(1, 8, {statistic});
  raised.rate = 3;
  Take(raised, 0.5f);
  EXPECT_THAT(server_->Values(SliceId(statistic), 0).values, Each(4.0f)) << "it has no learning rate";
  EXPECT_THAT(server_->Values(SliceId(0), 0).values, Each(::testing::Gt(4.99f)));
  EXPECT_EQ(server_->Find(SliceId(0))->slots, 2u);
  EXPECT_EQ(server_->Find(SliceId(statistic))->slots, 0u);
}

}  // namespace
}  // namespace leat::protocol
