// A server against workers that violate the protocol, disconnect, or read slowly while their slices move.
#include "train/ps/server_shell.h"

#include <gmock/gmock.h>

#include "net/frames/frame.h"
#include "train/ps/testing.h"

namespace leat::ps {
namespace {

using protocol::Disposition;
using protocol::PushReply;
using protocol::PushRequest;
using protocol::SliceOutcome;
using testing::AllSlices;
using testing::Batch;
using testing::kInitial;
using testing::kServer;

constexpr auto kPush = wire::FrameType::kPush;

// A connection with handmade frames.
struct RawWorker {
  net::testing::Recorder at;
  std::unique_ptr<net::Connection> connection;
};

class ServerShellTest : public testing::PsTest {
 protected:
  void MakeServer(const protocol::SliceTable& with, net::TransportOptions options = {},
                  const protocol::StrategyConfig& strategy = {},
                  Duration parked_timeout = std::chrono::seconds(3)) {
    table = with;
    server_transport = Make(server_loop, options);
    client_transport = Make(client_loop, options);
    server = std::make_unique<testing::ServerEnd>(server_loop, *server_transport, table, kServer,
                                                  AllSlices(table), strategy, parked_timeout);
  }
  std::unique_ptr<RawWorker> Connect() {
    auto worker = std::make_unique<RawWorker>();
    client_transport->Connect(server->address(), &worker->at, std::chrono::seconds(60),
                              [&](Result<std::unique_ptr<net::Connection>> connection) {
                                ASSERT_TRUE(connection.ok()) << connection.status().ToString();
                                worker->connection = std::move(*connection);
                              });
    EXPECT_TRUE(Run([&] { return worker->connection != nullptr; }));
    return worker;
  }
  // All gradients of all slices.
  Bytes Payload(float gradient) const {
    size_t elements = 0;
    for (const auto& slice : table.slices) elements += slice.elements();
    const std::vector<float> values(elements, gradient);
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  uint64_t Version(uint32_t slice = 0) const { return server->shell.machine().Find(SliceId(slice))->version; }
  // Expects that an honest worker's batch is applied.
  void ExpectServes(uint32_t batch) {
    const auto worker = Connect();
    const Bytes payload = Payload(0);
    worker->connection->Send(kPush, fields::Encode(Batch(batch, AllSlices(table))), {ByteView(payload)});
    ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
    const auto reply = fields::Decode<protocol::PushReply>(worker->at.messages[0].header, "push reply");
    ASSERT_TRUE(reply.ok());
    for (const auto& slice : reply->slices) EXPECT_EQ(slice.outcome, SliceOutcome::kApplied);
  }

  protocol::SliceTable table;
  std::unique_ptr<net::Transport> server_transport, client_transport;
  std::unique_ptr<testing::ServerEnd> server;
};

struct ForgedReply {
  const char* name;
  std::function<void(uint8_t* type, PushRequest* push, Bytes* header, Bytes* payload)> tell;
};

TEST_P(ServerShellTest, InvalidPushesEndTheirConnectionOnly) {
  MakeServer(testing::SmallTable());
  const std::vector<ForgedReply> lies = {
      {"another type", [](uint8_t* type, PushRequest*, Bytes*, Bytes*) { *type = 9; }},
      {"a reply", [](uint8_t* type, PushRequest*, Bytes*, Bytes*) { *type = 2; }},
      {"no header", [](uint8_t*, PushRequest*, Bytes* header, Bytes*) { *header = Bytes(); }},
      {"noise",
       [](uint8_t*, PushRequest*, Bytes* header, Bytes*) { *header = net::testing::RandomBytes(90, 5); }},
      {"a byte too few", [](uint8_t*, PushRequest*, Bytes*, Bytes* p) { p->pop_back(); }},
      {"a number too few", [](uint8_t*, PushRequest*, Bytes*, Bytes* p) { p->resize(p->size() - 4); }},
      {"a number too many", [](uint8_t*, PushRequest*, Bytes*, Bytes* p) { p->resize(p->size() + 4); }},
      {"no payload", [](uint8_t*, PushRequest*, Bytes*, Bytes* p) { p->clear(); }},
      {"a pull with a payload",
       [](uint8_t*, PushRequest* push, Bytes*, Bytes*) { push->disposition = Disposition::kPull; }},
      {"an empty batch with a payload",
       [](uint8_t*, PushRequest* push, Bytes*, Bytes*) {
         push->disposition = Disposition::kEmpty;
         push->events = 0;
       }},
      {"a slice that the table has not",
       [](uint8_t*, PushRequest* push, Bytes*, Bytes*) { push->slices.back().slice = SliceId(1 << 20); }},
      {"a slice twice",
       [](uint8_t*, PushRequest* push, Bytes*, Bytes*) { push->slices[1] = push->slices[0]; }},
      {"a batch that the cut has not", [](uint8_t*, PushRequest* push, Bytes*, Bytes*) { push->run = 1000; }},
      {"a partition that is not there",
       [](uint8_t*, PushRequest* push, Bytes*, Bytes*) { push->cut.partition = 2; }},
      {"a gradient of no events", [](uint8_t*, PushRequest* push, Bytes*, Bytes*) { push->events = 0; }},
      {"more events than a batch holds",
       [](uint8_t*, PushRequest* push, Bytes*, Bytes*) { push->events = 2; }},
      {"a cut that ends where it begins",
       [](uint8_t*, PushRequest* push, Bytes*, Bytes*) { push->cut.end = 0; }},
  };
  uint32_t good = 100;
  for (const auto& lie : lies) {
    const auto liar = Connect();
    uint8_t type = kPush;
    PushRequest push = Batch(1, AllSlices(table));
    Bytes header(1), payload = Payload(1);
    lie.tell(&type, &push, &header, &payload);
    if (header.size() == 1) header = fields::Encode(push);
    liar->connection->Send(type, header, {ByteView(payload)});
    ASSERT_TRUE(Run([&] { return liar->at.closed.has_value(); })) << lie.name;
    EXPECT_TRUE(liar->at.messages.empty()) << lie.name;
    ExpectServes(good++);
  }
  for (uint32_t i = 0; i < table.slices.size(); ++i) {
    EXPECT_EQ(Version(i), lies.size()) << "nothing of a lie was applied";
    EXPECT_TRUE(testing::All(server->shell.machine().Find(SliceId(i))->values(), kInitial));
  }
}

TEST_P(ServerShellTest, AWorkerThatReadsNoRepliesCannotAskForMoreAndMore) {
  MakeServer(testing::LargeTable(1 << 20));
  const auto worker = Connect();
  PushRequest pull = Batch(1, AllSlices(table), Disposition::kPull);
  pull.want_values = true;
  for (int i = 0; i < 200; ++i) worker->connection->Send(kPush, fields::Encode(pull), {});
  for (int i = 0; i < 5000; ++i) server_loop.RunOnce(Duration(0));  // the worker reads nothing
  ASSERT_TRUE(Run([&] { return worker->at.closed.has_value(); }));
  EXPECT_LT(worker->at.messages.size(), 100u);
  ExpectServes(2);
}

TEST_P(ServerShellTest, AnIncompletePushHarmsNobody) {
  MakeServer(testing::LargeTable(1 << 20));
  const Bytes payload = Payload(1);
  // The batch is applied to the slices that had arrived.
  for (int turns : {1, 3, 5, 8}) {
    auto worker = Connect();
    worker->connection->Send(kPush, fields::Encode(Batch(1, AllSlices(table))), {ByteView(payload)});
    for (int i = 0; i < turns; ++i) {
      client_loop.RunOnce(Duration(0));
      server_loop.RunOnce(Duration(0));
    }
    worker->connection.reset();
    Settle();
  }
  ExpectServes(100);
  // Slices that have the batch are reported as such when it is repeated.
  const auto worker = Connect();
  worker->connection->Send(kPush, fields::Encode(Batch(1, AllSlices(table))), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
  for (const SliceId slice : AllSlices(table)) {
    EXPECT_EQ(Version(slice.value), 2u);
    EXPECT_TRUE(testing::All(server->shell.machine().Find(slice)->values(), kInitial - 1));
  }
}

TEST_P(ServerShellTest, ValuesThatLeaveStayAliveWhenTheirSlicesAreDropped) {
  MakeServer(testing::LargeTable(16 << 20));
  auto worker = Connect();
  worker->connection->Send(kPush, fields::Encode(Batch(0, AllSlices(table), Disposition::kPull)), {});
  // The worker does not read: the reply stays with the server.
  ASSERT_TRUE(net::testing::RunUntil(server_loop, [&] {
    client_loop.RunOnce(Duration(0));
    return server->shell.bytes_out() > 0;
  }));
  server->shell.OnHeartbeatReply(testing::Orders(kServer, {}));
  ASSERT_EQ(server->shell.machine().Find(SliceId(0)), nullptr);
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
  const auto& payload = worker->at.messages[0].payload;
  ASSERT_EQ(payload.size(), (16u << 20) * sizeof(float));
  const std::span<const float> values(reinterpret_cast<const float*>(payload.data()), 16 << 20);
  EXPECT_EQ(std::ranges::count(values, kInitial), 16 << 20);
}

TEST_P(ServerShellTest, SlicesDroppedInTheMiddleOfAPush) {
  MakeServer(testing::LargeTable(8 << 20));
  const Bytes payload = Payload(1);
  auto worker = Connect();
  worker->connection->Send(kPush, fields::Encode(Batch(1, AllSlices(table))), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return Version() == 1; }));
  ASSERT_TRUE(worker->at.messages.empty());
  auto& machine = server->shell.machine();
  machine.OnHeartbeatReply(testing::Orders(kServer, {SliceId(1)}));
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
  const auto reply = fields::Decode<protocol::PushReply>(worker->at.messages[0].header, "push reply");
  ASSERT_TRUE(reply.ok());
  size_t values = 0;
  for (const auto& slice : reply->slices)
    values += slice.values ? table.slices[slice.slice.value].elements() : 0;
  EXPECT_LE(values, table.slices[1].elements());
  EXPECT_EQ(worker->at.messages[0].payload.size(), values * sizeof(float));
  EXPECT_EQ(reply->slices.back().outcome, SliceOutcome::kNotHere) << "it went before its gradient came";
}

TEST_P(ServerShellTest, AnUpdateWhileASliceIsSavedLeavesTheSavedOneAlone) {
  MakeServer(testing::LargeTable(1 << 16));
  auto reply = testing::Orders(kServer, AllSlices(table));
  reply.checkpoint = protocol::CheckpointOrder{1, "there"};
  const auto actions = server->shell.OnHeartbeatReply(reply);
  const auto* save = std::get_if<protocol::SaveShard>(&actions.at(0));
  ASSERT_NE(save, nullptr);
  auto worker = Connect();
  const Bytes payload = Payload(1);
  worker->connection->Send(kPush, fields::Encode(Batch(1, AllSlices(table))), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
  EXPECT_TRUE(testing::All(save->slices[0]->values(), kInitial));
  EXPECT_EQ(worker->at.messages[0].payload.size(), payload.size());
  EXPECT_TRUE(testing::All(server->shell.machine().Find(SliceId(0))->values(), kInitial - 1));
}

TEST_P(ServerShellTest, TwoWorkersInTurns) {
  MakeServer(testing::SmallTable());
  const auto first = Connect(), second = Connect();
  const Bytes payload = Payload(1);
  for (uint32_t batch = 0; batch < 20; ++batch) {
    const auto& worker = batch % 2 == 0 ? first : second;
    worker->connection->Send(kPush, fields::Encode(Batch(batch, AllSlices(table))), {ByteView(payload)});
  }
  ASSERT_TRUE(Run([&] { return first->at.messages.size() == 10 && second->at.messages.size() == 10; }));
  for (const SliceId slice : AllSlices(table)) {
    EXPECT_EQ(Version(slice.value), 20u);
    EXPECT_TRUE(testing::All(server->shell.machine().Find(slice)->values(), kInitial - 20));
  }
  EXPECT_EQ(first->at.violations + second->at.violations, 0);
}

TEST_P(ServerShellTest, PullsAreCountedApart) {
  MakeServer(testing::SmallTable());
  const auto worker = Connect();
  const Bytes payload = Payload(1);
  worker->connection->Send(kPush, fields::Encode(Batch(0, AllSlices(table))), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
  EXPECT_EQ(server->shell.bytes_of_pulls(), 0u);
  const auto before = server->shell.bytes_in();
  const Bytes pull = fields::Encode(Batch(1, AllSlices(table), Disposition::kPull));
  worker->connection->Send(kPush, pull, {});
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 2; }));
  EXPECT_EQ(server->shell.bytes_in() - before, pull.size());
  EXPECT_EQ(server->shell.bytes_of_pulls(), pull.size());
}

// A push of 20 MB through a ring of a few slices: no gradient is overwritten before it is applied.
TEST_P(ServerShellTest, APushLargerThanTheRingArrivesWhole) {
  MakeServer(testing::LargeTable(5'000'011));
  const auto worker = Connect();
  std::vector<float> gradients(5'000'011);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>(i % 9973);
  constexpr uint32_t kPushes = 2;
  for (uint32_t batch = 0; batch < kPushes; ++batch) {
    worker->connection->Send(kPush, fields::Encode(Batch(batch, AllSlices(table))),
                             {std::as_bytes(std::span(gradients))});
  }
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == kPushes; }));
  for (uint32_t slice = 0; slice < table.slices.size(); ++slice) {
    const auto values = server->shell.machine().Find(SliceId(slice))->values();
    const uint64_t begin = table.slices[slice].begin;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], kInitial - kPushes * static_cast<float>((begin + i) % 9973))
          << "slice " << slice << " at " << i;
    }
  }
}

TEST_P(ServerShellTest, WorkersOutsideTheViewAreEvicted) {
  MakeServer(testing::SmallTable());
  const auto worker = Connect();
  auto push = Batch(0, AllSlices(table));
  push.worker = NodeId(4);
  const Bytes payload = Payload(1);
  worker->connection->Send(kPush, fields::Encode(push), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
  const auto reply = fields::Decode<protocol::PushReply>(worker->at.messages[0].header, "push reply");
  ASSERT_TRUE(reply.ok());
  EXPECT_TRUE(reply->evicted);
  EXPECT_TRUE(worker->at.messages[0].payload.empty());
  EXPECT_EQ(Version(), 0u);
}

TEST_P(ServerShellTest, DestroyedWithConnectionsOpenAndMessagesUnderWay) {
  MakeServer(testing::LargeTable(8 << 20));
  const auto idle = Connect(), pushing = Connect(), pulling = Connect();
  const Bytes payload = Payload(1);
  pushing->connection->Send(kPush, fields::Encode(Batch(1, AllSlices(table))), {ByteView(payload)});
  pulling->connection->Send(kPush, fields::Encode(Batch(0, AllSlices(table), Disposition::kPull)), {});
  ASSERT_TRUE(Run([&] { return server->shell.bytes_out() > 0 && Version() == 1; }));
  server.reset();
  ASSERT_TRUE(Run([&] { return idle->at.closed && pushing->at.closed && pulling->at.closed; }));
}

TEST_P(ServerShellTest, AWorkerThatStopsReadingIsGivenUp) {
  metrics::Registry metrics;
  MakeServer(testing::LargeTable(16 << 20),
             {.stall_timeout = std::chrono::milliseconds(30), .metrics = &metrics});
  auto worker = Connect();
  worker->connection->Send(kPush, fields::Encode(Batch(0, AllSlices(table), Disposition::kPull)), {});
  client_loop.RunOnce(std::chrono::milliseconds(1));
  // The worker's loop does not run: only the kernel's buffers fill.
  ASSERT_TRUE(net::testing::RunUntil(
      server_loop, [&] { return metrics.counter("leat_net_connections_stalled_total").value() == 1; }));
  ASSERT_TRUE(Run([&] { return worker->at.closed.has_value(); }));
  EXPECT_TRUE(worker->at.messages.empty());
}

// ---- steps of two lanes

protocol::StrategyConfig TwoLanes() {
  protocol::StrategyConfig strategy;
  strategy.kind = protocol::StrategyKind::kSync;
  strategy.lanes = 2;
  return strategy;
}

// A lane's run of a step, which requests the values after that step.
PushRequest LaneOf(const protocol::SliceTable& table, uint64_t step, uint32_t lane) {
  PushRequest push = Batch(static_cast<uint32_t>(step), AllSlices(table));
  push.sequence = step * 10 + lane;
  push.cut.partition = lane;
  push.step_lane = protocol::StepLane{step, lane, 2, 2};
  push.version_wanted = step + 1;
  return push;
}

PushReply ReplyAt(const RawWorker& worker, size_t i) {
  auto reply = fields::Decode<protocol::PushReply>(worker.at.messages.at(i).header, "push reply");
  EXPECT_TRUE(reply.ok());
  return reply.ok() ? *reply : PushReply{};
}

bool AllOf(const Bytes& payload, float value) {
  return testing::All({reinterpret_cast<const float*>(payload.data()), payload.size() / sizeof(float)},
                      value);
}

TEST_P(ServerShellTest, AnswersWaitingRequestsWhenTheStepIsComplete) {
  MakeServer(testing::SmallTable(), {}, TwoLanes());
  const auto first = Connect(), second = Connect();
  const Bytes one = Payload(1), three = Payload(3);
  for (uint64_t step = 0; step < 20; ++step) {
    first->connection->Send(kPush, fields::Encode(LaneOf(table, step, 0)), {ByteView(one)});
    Settle();
    EXPECT_EQ(first->at.messages.size(), step);
    second->connection->Send(kPush, fields::Encode(LaneOf(table, step, 1)), {ByteView(three)});
    ASSERT_TRUE(
        Run([&] { return first->at.messages.size() == step + 1 && second->at.messages.size() == step + 1; }));
    for (const auto& worker : {&first, &second}) {
      EXPECT_TRUE(AllOf((*worker)->at.messages[step].payload, kInitial - 2 * static_cast<float>(step + 1)));
      for (const auto& slice : ReplyAt(**worker, step).slices) {
        EXPECT_EQ(slice.outcome, SliceOutcome::kApplied);
        EXPECT_EQ(slice.version, step + 1);
      }
    }
  }
}

TEST_P(ServerShellTest, AConnectionThatClosesWhileItWaitsHarmsNobody) {
  MakeServer(testing::SmallTable(), {}, TwoLanes());
  const Bytes payload = Payload(1);
  auto gone = Connect();
  gone->connection->Send(kPush, fields::Encode(LaneOf(table, 0, 0)), {ByteView(payload)});
  Settle();
  gone->connection.reset();
  Settle();
  const auto second = Connect();
  second->connection->Send(kPush, fields::Encode(LaneOf(table, 0, 1)), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return second->at.messages.size() == 1; }));
  EXPECT_EQ(Version(), 1u) << "what it had pushed counts";
  EXPECT_TRUE(AllOf(second->at.messages[0].payload, kInitial - 1));
  Settle();
  EXPECT_TRUE(gone->at.messages.empty());
}

TEST_P(ServerShellTest, PatienceEnds) {
  MakeServer(testing::SmallTable(), {}, TwoLanes(), std::chrono::milliseconds(20));
  const Bytes payload = Payload(1);
  const auto first = Connect(), second = Connect();
  for (uint64_t round = 0; round < 3; ++round) {
    first->connection->Send(kPush, fields::Encode(LaneOf(table, 0, 0)), {ByteView(payload)});
    Settle();
    second->connection->Send(kPush, fields::Encode(LaneOf(table, 0, 0)), {ByteView(payload)});
    ASSERT_TRUE(Run(
        [&] { return first->at.messages.size() == round + 1 && second->at.messages.size() == round + 1; }));
    for (const auto& slice : ReplyAt(*first, round).slices) {
      EXPECT_EQ(slice.outcome, SliceOutcome::kHeld);
      EXPECT_FALSE(slice.values);
    }
    EXPECT_TRUE(first->at.messages[round].payload.empty());
  }
}

TEST_P(ServerShellTest, RepeatedRequestsAreAnsweredInOrder) {
  MakeServer(testing::SmallTable(), {}, TwoLanes());
  const Bytes payload = Payload(1);
  const auto worker = Connect();
  PushRequest pull = Batch(0, AllSlices(table), Disposition::kPull);
  pull.sequence = 77;
  pull.version_wanted = 1;
  worker->connection->Send(kPush, fields::Encode(pull), {});
  worker->connection->Send(kPush, fields::Encode(LaneOf(table, 0, 0)), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
  EXPECT_EQ(ReplyAt(*worker, 0).sequence, 77u);
  EXPECT_TRUE(worker->at.messages[0].payload.empty());
  const auto other = Connect();
  other->connection->Send(kPush, fields::Encode(LaneOf(table, 0, 1)), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 2; }));
  EXPECT_EQ(ReplyAt(*worker, 1).sequence, 0u);
  EXPECT_TRUE(AllOf(worker->at.messages[1].payload, kInitial - 1));
}

TEST_P(ServerShellTest, WaitingRequestsLearnOfTheCoordinatorsChanges) {
  MakeServer(testing::SmallTable(), {}, TwoLanes(), std::chrono::minutes(5));
  const Bytes payload = Payload(1);
  const auto worker = Connect();
  worker->connection->Send(kPush, fields::Encode(LaneOf(table, 0, 0)), {ByteView(payload)});
  Settle();
  EXPECT_TRUE(worker->at.messages.empty());
  server->shell.OnHeartbeatReply(testing::Orders(kServer, {}));
  ASSERT_TRUE(Run([&] { return worker->at.messages.size() == 1; }));
  for (const auto& slice : ReplyAt(*worker, 0).slices) EXPECT_EQ(slice.outcome, SliceOutcome::kNotHere);
}

// The connection is lost in the middle of a push: the slices of one server differ by a step until a retry.
TEST_P(ServerShellTest, APushOfAStepThatBrokeOffIsFinishedByARetry) {
  MakeServer(testing::LargeTable(1 << 20), {}, TwoLanes());
  const Bytes payload = Payload(1);
  const auto first = Connect();
  for (const int turns : {2, 4, 6, 9}) {
    const uint64_t step = Version();
    first->connection->Send(kPush, fields::Encode(LaneOf(table, step, 0)), {ByteView(payload)});
    ASSERT_TRUE(Run([&] { return server->shell.bytes_in() > 0; }));
    Settle();
    auto dying = Connect();
    dying->connection->Send(kPush, fields::Encode(LaneOf(table, step, 1)), {ByteView(payload)});
    for (int i = 0; i < turns; ++i) {
      client_loop.RunOnce(Duration(0));
      server_loop.RunOnce(Duration(0));
    }
    dying->connection.reset();
    Settle();
    const auto second = Connect();
    second->connection->Send(kPush, fields::Encode(LaneOf(table, step, 1)), {ByteView(payload)});
    ASSERT_TRUE(Run([&] { return second->at.messages.size() == 1; }));
    for (const SliceId slice : AllSlices(table)) {
      EXPECT_EQ(Version(slice.value), step + 1);
      EXPECT_TRUE(testing::All(server->shell.machine().Find(slice)->values(),
                               kInitial - static_cast<float>(step + 1)));
    }
    EXPECT_TRUE(AllOf(second->at.messages[0].payload, kInitial - static_cast<float>(step + 1)));
    ASSERT_TRUE(Run([&] { return first->at.messages.size() == step + 1; }));
  }
}

// A worker that reads slowly gets values of one version, whatever steps are completed meanwhile.
TEST_P(ServerShellTest, ValuesOfAStepAreNotTorn) {
  MakeServer(testing::LargeTable(4 << 20), {}, TwoLanes());
  const auto slow = Connect();
  PushRequest pull = Batch(0, AllSlices(table), Disposition::kPull);
  slow->connection->Send(kPush, fields::Encode(pull), {});
  ASSERT_TRUE(Run([&] { return server->shell.bytes_out() > 0; }));
  ASSERT_TRUE(slow->at.messages.empty()) << "it has not read it yet";
  auto& machine = server->shell.machine();
  for (uint64_t step = 0; step < 3; ++step) {
    for (const uint32_t lane : {0u, 1u}) {
      PushRequest push = LaneOf(table, step, lane);
      push.version_wanted = 0;
      std::vector<uint64_t> elements;
      ASSERT_TRUE(machine.Begin(push, &elements).ok());
      std::vector<protocol::SliceReply> replies;
      for (size_t i = 0; i < push.slices.size(); ++i) {
        replies.push_back(machine.Apply(push, i, std::vector<float>(elements[i], 1.0f)));
      }
      machine.Finish(0, push, std::move(replies));
    }
  }
  EXPECT_EQ(Version(), 3u);
  ASSERT_TRUE(Run([&] { return slow->at.messages.size() == 1; }));
  EXPECT_TRUE(AllOf(slow->at.messages[0].payload, kInitial));
}

INSTANTIATE_TEST_SUITE_P(Transports, ServerShellTest, testing::TransportKinds(), testing::NameOf);

}  // namespace
}  // namespace leat::ps
