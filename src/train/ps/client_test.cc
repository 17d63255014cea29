// A worker's client against servers: pushes are applied once, values arrive in the parameters, and each
// failure is reported once, without memory accesses afterwards.
#include "train/ps/client.h"

#include <gmock/gmock.h>

#include <deque>
#include <optional>

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
using testing::ServerEnd;

class ClientTest : public testing::PsTest {
 protected:
  struct Failure {
    NodeId server;
    uint64_t sequence;
    Status why;
  };

  // A client whose incoming messages meet `faults`.
  void MakeClient(const protocol::SliceTable& table, const net::FaultSchedule& weather = {}) {
    client.reset();
    faults = std::make_shared<net::Faults>(weather);
    client_transport = net::MakeFaultTransport(client_loop, Make(client_loop), faults);
    parameters = std::make_unique<protocol::Parameters>(table);
    client =
        std::make_unique<Client>(*client_transport, *parameters,
                                 Client::Events{.on_reply =
                                                    [this](NodeId from, const PushReply& reply) {
                                                      replies.push_back(reply);
                                                      if (on_reply) on_reply(from, reply);
                                                    },
                                                .on_failed =
                                                    [this](NodeId to, uint64_t sequence, const Status& why) {
                                                      failures.push_back({to, sequence, why});
                                                      if (on_failed) on_failed(to);
                                                    },
                                                .on_silence =
                                                    [this](NodeId of, bool silent) {
                                                      if (of == kServer) silences.push_back(silent);
                                                      if (on_silence) on_silence(of);
                                                    }});
  }
  void MakePair(const protocol::SliceTable& table) {
    server_transport = Make(server_loop);
    server = std::make_unique<ServerEnd>(server_loop, *server_transport, table, kServer, AllSlices(table));
    MakeClient(table);
  }

  uint64_t Send(PushRequest request, NodeId to, const std::string& address) {
    request.sequence = ++last_sequence;
    const uint64_t sequence = request.sequence;
    client->Send({to, address, std::make_shared<PushRequest>(std::move(request))});
    return sequence;
  }
  uint64_t Send(PushRequest request) { return Send(std::move(request), kServer, server->address()); }
  // Sends a request and waits for its outcome; returns the reply if there is one.
  std::optional<PushReply> Exchange(PushRequest request) {
    const size_t before = replies.size() + failures.size();
    const size_t answered = replies.size();
    Send(std::move(request));
    EXPECT_TRUE(Run([&] { return replies.size() + failures.size() > before; }));
    if (replies.size() == answered) return std::nullopt;
    return replies.back();
  }
  PushRequest Pull() { return Batch(0, AllSlices(parameters->table()), Disposition::kPull); }
  // A different gradient for every element, computed from its position.
  void FillGradients() {
    float next = 0;
    for (size_t v = 0; v < parameters->table().variables.size(); ++v) {
      for (float& x : parameters->gradients(v)) x = ++next;
    }
  }
  // Expects every value to be kInitial − times × its gradient.
  void ExpectSteps(float times) {
    for (size_t v = 0; v < parameters->table().variables.size(); ++v) {
      const auto values = parameters->values(v), gradients = parameters->gradients(v);
      for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], kInitial - times * gradients[i]) << i;
    }
  }

  std::unique_ptr<net::Transport> server_transport, client_transport;
  std::shared_ptr<net::Faults> faults;
  std::unique_ptr<ServerEnd> server;
  std::unique_ptr<protocol::Parameters> parameters;
  std::unique_ptr<Client> client;
  std::vector<PushReply> replies;
  std::vector<Failure> failures;
  std::vector<bool> silences;  // reports of kServer's silence and its end
  std::function<void(NodeId, const PushReply&)> on_reply;
  std::function<void(NodeId)> on_failed, on_silence;
  uint64_t last_sequence = 0;
};

TEST_P(ClientTest, WhatIsPulledLandsInTheParameters) {
  MakePair(testing::SmallTable());
  const auto reply = Exchange(Pull());
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->sequence, last_sequence);
  EXPECT_EQ(reply->generation, Generation(3));
  ASSERT_EQ(reply->slices.size(), parameters->table().slices.size());
  for (const auto& slice : reply->slices) {
    EXPECT_EQ(slice.outcome, SliceOutcome::kPulled);
    EXPECT_EQ(slice.incarnation, testing::kIncarnation);
    EXPECT_EQ(slice.version, 0u);
    EXPECT_TRUE(slice.values);
  }
  ExpectSteps(0);
}

TEST_P(ClientTest, EveryGradientMeetsItsOwnParameter) {
  MakePair(testing::SmallTable());
  FillGradients();
  for (uint32_t batch = 0; batch < 3; ++batch) {
    const auto reply = Exchange(Batch(batch, AllSlices(parameters->table())));
    ASSERT_TRUE(reply.has_value());
    for (const auto& slice : reply->slices) {
      EXPECT_EQ(slice.outcome, SliceOutcome::kApplied);
      EXPECT_EQ(slice.version, batch + 1);
    }
    ExpectSteps(static_cast<float>(batch + 1));
  }
  EXPECT_EQ(server->accepted, 1) << "one connection is enough";
}

TEST_P(ClientTest, LargeMessagesBothWays) {
  MakePair(testing::LargeTable(3'000'001));
  FillGradients();
  for (int i = 1; i <= 2; ++i) {
    ASSERT_TRUE(Exchange(Batch(static_cast<uint32_t>(i), AllSlices(parameters->table()))).has_value());
    ExpectSteps(static_cast<float>(i));
  }
  EXPECT_GT(server->shell.bytes_in(), 24'000'000u);
  EXPECT_GT(server->shell.bytes_out(), 24'000'000u);
}

TEST_P(ClientTest, ABatchPushedTwiceIsAppliedOnce) {
  MakePair(testing::SmallTable());
  FillGradients();
  ASSERT_TRUE(Exchange(Batch(4, AllSlices(parameters->table()))).has_value());
  for (size_t v = 0; v < 3; ++v) std::ranges::fill(parameters->values(v), -1.0f);
  const auto again = Exchange(Batch(4, AllSlices(parameters->table())));
  ASSERT_TRUE(again.has_value());
  for (const auto& slice : again->slices) {
    EXPECT_EQ(slice.outcome, SliceOutcome::kDuplicate);
    EXPECT_EQ(slice.version, 1u);
  }
  ExpectSteps(1);  // values are returned all the same
}

TEST_P(ClientTest, BatchesWithoutGradientAreNotedAndMoveNothing) {
  MakePair(testing::SmallTable());
  for (size_t v = 0; v < 3; ++v) std::ranges::fill(parameters->gradients(v), 99.0f);
  const auto in = server->shell.bytes_in();
  for (const auto disposition : {Disposition::kEmpty, Disposition::kRejected}) {
    const auto batch = static_cast<uint32_t>(disposition);
    const auto reply = Exchange(Batch(batch, AllSlices(parameters->table()), disposition));
    ASSERT_TRUE(reply.has_value());
    for (const auto& slice : reply->slices) EXPECT_EQ(slice.outcome, SliceOutcome::kApplied);
    const auto again = Exchange(Batch(batch, AllSlices(parameters->table())));
    for (const auto& slice : again->slices) EXPECT_EQ(slice.outcome, SliceOutcome::kDuplicate);
  }
  for (size_t v = 0; v < 3; ++v) EXPECT_TRUE(testing::All(parameters->values(v), kInitial));
  // Two of the four pushes carried gradients.
  EXPECT_LT(server->shell.bytes_in() - in, 3 * 300 * sizeof(float) + 8000);
}

TEST_P(ClientTest, ValuesStayWhereTheyAreUnlessTheyAreWanted) {
  MakePair(testing::SmallTable());
  FillGradients();
  auto push = Batch(0, AllSlices(parameters->table()));
  push.want_values = false;
  const auto reply = Exchange(push);
  ASSERT_TRUE(reply.has_value());
  for (const auto& slice : reply->slices) EXPECT_FALSE(slice.values);
  for (size_t v = 0; v < 3; ++v) EXPECT_TRUE(testing::All(parameters->values(v), 0.0f));
}

TEST_P(ClientTest, SlicesThatAreNotThereAreLeftAlone) {
  MakePair(testing::SmallTable());
  FillGradients();
  auto push = Batch(0, AllSlices(parameters->table()));
  push.slices[1].incarnation = Incarnation(6);  // a former incarnation
  push.slices.erase(push.slices.begin());
  const auto reply = Exchange(push);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->slices[0].outcome, SliceOutcome::kNotHere);
  EXPECT_FALSE(reply->slices[0].values);
  EXPECT_EQ(reply->slices[1].outcome, SliceOutcome::kApplied);
  EXPECT_TRUE(testing::All(parameters->values(SliceId(0)), 0.0f)) << "not asked for";
  EXPECT_TRUE(testing::All(parameters->values(SliceId(1)), 0.0f));
  const auto values = parameters->values(SliceId(2)), gradients = parameters->gradients(SliceId(2));
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], kInitial - gradients[i]);
}

TEST_P(ClientTest, TwoServersEachWithItsSlices) {
  const auto table = testing::SmallTable();
  std::vector<SliceId> halves[2];
  for (const SliceId slice : AllSlices(table)) halves[slice.value % 2].push_back(slice);
  server_transport = Make(server_loop);
  ServerEnd first(server_loop, *server_transport, table, NodeId(1), halves[0]);
  ServerEnd second(server_loop, *server_transport, table, NodeId(2), halves[1]);
  MakeClient(table);
  FillGradients();
  for (int round = 1; round <= 2; ++round) {
    const auto batch = static_cast<uint32_t>(round);
    Send(Batch(batch, halves[0]), NodeId(1), first.address());
    Send(Batch(batch, halves[1]), NodeId(2), second.address());
    ASSERT_TRUE(Run([&] { return replies.size() == 2u * batch; }));
    ExpectSteps(static_cast<float>(round));
  }
  client->Disconnect(NodeId(1));
  Send(Batch(3, halves[1]), NodeId(2), second.address());
  ASSERT_TRUE(Run([&] { return replies.size() == 5; })) << "the other one's connection stays";
  EXPECT_EQ(second.accepted, 1);
  EXPECT_TRUE(failures.empty());
}

TEST_P(ClientTest, NoServerIsReportedOnce) {
  MakePair(testing::SmallTable());
  const std::string address = server->address();
  server.reset();
  const uint64_t sequence = Send(Pull(), kServer, address);
  ASSERT_TRUE(Run([&] { return !failures.empty(); }));
  Settle();
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].server, kServer);
  EXPECT_EQ(failures[0].sequence, sequence);
  EXPECT_EQ(failures[0].why.code(), Code::kUnavailable);
  EXPECT_THAT(failures[0].why.message(), ::testing::HasSubstr(address));
}

TEST_P(ClientTest, ConnectsAgainAfterAFailure) {
  MakePair(testing::SmallTable());
  faults->set_unreachable(true);
  EXPECT_FALSE(Exchange(Pull()).has_value());
  faults->set_unreachable(false);
  EXPECT_TRUE(Exchange(Pull()).has_value());
  faults->DropAll();
  Settle();
  EXPECT_EQ(failures.size(), 1u) << "nothing was under way";
  EXPECT_TRUE(Exchange(Pull()).has_value());
  EXPECT_EQ(server->accepted, 2);
  EXPECT_THAT(silences, ::testing::ElementsAre(false, false)) << "a host that refuses is not silent";
}

TEST_P(ClientTest, ReportsThatAServersHostIsSilentUntilItIsConnectedAgain) {
  MakePair(testing::SmallTable());
  EXPECT_TRUE(Exchange(Pull()).has_value());
  EXPECT_THAT(silences, ::testing::ElementsAre(false)) << "a new connection";
  faults->SetSilent(true);
  EXPECT_THAT(silences, ::testing::ElementsAre(false, true));
  EXPECT_TRUE(failures.empty()) << "the connection stays";
  faults->DropAll();
  Settle();
  EXPECT_EQ(silences.size(), 2u);
  EXPECT_TRUE(Exchange(Pull()).has_value());
  EXPECT_THAT(silences, ::testing::ElementsAre(false, true, false));
}

TEST_P(ClientTest, AHostThatDoesNotAnswerTheFirstConnectionIsSilentAtOnce) {
  MakePair(testing::SmallTable());
  faults->set_unreachable(true, Code::kDeadlineExceeded);
  EXPECT_FALSE(Exchange(Pull()).has_value());
  EXPECT_EQ(failures.size(), 1u);
  EXPECT_THAT(silences, ::testing::ElementsAre(true));
  faults->set_unreachable(false);
  EXPECT_TRUE(Exchange(Pull()).has_value());
  EXPECT_THAT(silences, ::testing::ElementsAre(true, false));
}

TEST_P(ClientTest, DisconnectedFromWithinTheReportOfSilence) {
  MakePair(testing::SmallTable());
  faults->set_unreachable(true, Code::kDeadlineExceeded);
  on_silence = [&](NodeId node) { client->Disconnect(node); };
  Send(Pull());
  ASSERT_TRUE(Run([&] { return !silences.empty(); }));
  Settle();
  EXPECT_TRUE(failures.empty());
}

TEST_P(ClientTest, AnIncompleteReplyIsReportedOnceAndThePushIsNotRepeatedForNothing) {
  MakePair(testing::LargeTable(1 << 18));
  FillGradients();
  uint32_t batch = 0;
  for (const auto fault : {net::Fault::kDrop, net::Fault::kCut, net::Fault::kStall}) {
    replies.clear();
    failures.clear();
    faults->Next(fault);
    const auto lost = Batch(++batch, AllSlices(parameters->table()));
    EXPECT_FALSE(Exchange(lost).has_value());
    Settle();
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].sequence, last_sequence);
    const auto again = Exchange(lost);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->slices[0].outcome, SliceOutcome::kDuplicate);
    ExpectSteps(static_cast<float>(batch));
  }
}

TEST_P(ClientTest, AReplyThatIsLateIsStillTaken) {
  MakePair(testing::SmallTable());
  FillGradients();
  faults->Next(net::Fault::kDelay);
  ASSERT_TRUE(Exchange(Batch(0, AllSlices(parameters->table()))).has_value());
  ExpectSteps(1);
}

TEST_P(ClientTest, DisconnectedFromWithinAReply) {
  MakePair(testing::SmallTable());
  on_reply = [&](NodeId node, const PushReply&) {
    client->Disconnect(node);
    client->Disconnect(node);  // a second call is harmless
  };
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(Exchange(Pull()).has_value());
    Settle();
    EXPECT_EQ(server->accepted, i);
  }
  EXPECT_TRUE(failures.empty());
}

TEST_P(ClientTest, AnotherPushFromWithinAReplyOnANewConnection) {
  MakePair(testing::SmallTable());
  FillGradients();
  on_reply = [&](NodeId node, const PushReply&) {
    if (replies.size() == 5) return;
    if (replies.size() % 2 == 0) client->Disconnect(node);
    Send(Batch(static_cast<uint32_t>(replies.size()), AllSlices(parameters->table())));
  };
  Send(Batch(0, AllSlices(parameters->table())));
  ASSERT_TRUE(Run([&] { return replies.size() == 5; }));
  EXPECT_EQ(server->accepted, 3);
  ExpectSteps(5);
}

TEST_P(ClientTest, DisconnectedAndSentAgainFromWithinAFailure) {
  MakePair(testing::SmallTable());
  for (const auto fault : {net::Fault::kDrop, net::Fault::kCut}) {
    replies.clear();
    failures.clear();
    on_failed = [&](NodeId node) {
      client->Disconnect(node);
      Send(Pull());
    };
    faults->Next(fault);
    Send(Pull());
    ASSERT_TRUE(Run([&] { return replies.size() == 1; }));
    EXPECT_EQ(failures.size(), 1u);
  }
}

TEST_P(ClientTest, NothingIsTouchedAfterADisconnect) {
  MakePair(testing::LargeTable(1 << 20));
  // In the middle of a reply's payload.
  faults->Next(net::Fault::kStall);
  Send(Pull());
  ASSERT_TRUE(Run([&] { return parameters->values(SliceId(0))[0] == kInitial; }));
  client->Disconnect(kServer);
  std::ranges::fill(parameters->values(size_t{0}), -1.0f);
  Settle();
  EXPECT_TRUE(testing::All(parameters->values(size_t{0}), -1.0f));
  // While it connects, and with the push just sent.
  Send(Pull());
  client->Disconnect(kServer);
  Settle();
  Send(Pull());
  ASSERT_TRUE(Run([&] { return server->accepted == 2 || server->accepted == 3; }));
  client->Disconnect(kServer);
  Settle();
  EXPECT_TRUE(testing::All(parameters->values(size_t{0}), -1.0f));
  EXPECT_TRUE(replies.empty());
  EXPECT_TRUE(failures.empty());
}

TEST_P(ClientTest, DestroyedWithARequestUnderWay) {
  for (int moment = 0; moment < 3; ++moment) {
    MakePair(testing::LargeTable(1 << 20));
    FillGradients();
    if (moment == 2) faults->Next(net::Fault::kStall);
    Send(Batch(0, AllSlices(parameters->table())));
    ASSERT_TRUE(Run([&] {
      if (moment == 1) return server->accepted == 1;
      return moment == 0 || parameters->values(SliceId(0))[0] != 0;
    }));
    client.reset();
    parameters.reset();  // the sanitizer detects later writes
    Settle();
    client_transport.reset();
    Settle();
    EXPECT_TRUE(replies.empty());
    EXPECT_TRUE(failures.empty());
    server.reset();
    Settle();
  }
}

TEST_P(ClientTest, AServerThatGoesInTheMiddleIsAFailureOnce) {
  MakePair(testing::LargeTable(8 << 20));
  Send(Pull());
  // Its reply is in transit when it is destroyed.
  ASSERT_TRUE(Run([&] { return server->shell.bytes_out() > 0; }));
  server.reset();
  ASSERT_TRUE(Run([&] { return !failures.empty(); }));
  Settle();
  EXPECT_EQ(failures.size(), 1u);
  EXPECT_TRUE(replies.empty());
}

TEST_P(ClientTest, EveryBatchCountsOnceWhateverTheNetworkDoes) {
  const auto table = testing::SmallTable();
  const net::FaultSchedule weather{.seed = 3,
                                   .delay = 0.05,
                                   .drop = 0.1,
                                   .cut = 0.1,
                                   .stall = 0.02,
                                   .longest_delay = std::chrono::milliseconds(2),
                                   .stall_timeout = std::chrono::milliseconds(5)};
  auto server_faults = std::make_shared<net::Faults>(weather);
  server_transport = net::MakeFaultTransport(server_loop, Make(server_loop), server_faults);
  server = std::make_unique<ServerEnd>(server_loop, *server_transport, table, kServer, AllSlices(table));
  MakeClient(
      table,
      {.seed = 4, .drop = 0.1, .cut = 0.1, .stall = 0.02, .stall_timeout = std::chrono::milliseconds(5)});
  for (size_t v = 0; v < 3; ++v) std::ranges::fill(parameters->gradients(v), -1.0f);
  constexpr uint32_t kBatches = 200;
  for (uint32_t batch = 0; batch < kBatches; ++batch) {
    while (!Exchange(Batch(batch, AllSlices(table))).has_value()) {
    }
  }
  for (size_t v = 0; v < 3; ++v) EXPECT_TRUE(testing::All(parameters->values(v), kInitial + kBatches));
  EXPECT_GT(server_faults->count(net::Fault::kCut), 5u);
  EXPECT_GT(faults->count(net::Fault::kCut), 5u);
  EXPECT_EQ(replies.size(), kBatches);
  EXPECT_EQ(replies.size() + failures.size(), last_sequence) << "each push has one end";
}

// ---- malicious servers

struct ForgedServerReply {
  const char* name;
  // Changes an honest reply and its payload before it is sent.
  std::function<void(uint8_t* type, PushReply* reply, Bytes* payload)> tell;
};

class MaliciousServerTest : public ClientTest {};

TEST_P(MaliciousServerTest, IsDisconnectedAndReportedOnce) {
  const std::vector<ForgedServerReply> lies = {
      {"another type", [](uint8_t* type, PushReply*, Bytes*) { *type = 77; }},
      {"a push", [](uint8_t* type, PushReply*, Bytes*) { *type = 1; }},
      {"another sequence", [](uint8_t*, PushReply* r, Bytes*) { ++r->sequence; }},
      {"a slice too few", [](uint8_t*, PushReply* r, Bytes*) { r->slices.pop_back(); }},
      {"none of the slices, and a payload", [](uint8_t*, PushReply* r, Bytes*) { r->slices.clear(); }},
      {"a slice too many",
       [](uint8_t*, PushReply* r, Bytes* payload) {
         r->slices.push_back({SliceId(500), SliceOutcome::kPulled, true, testing::kIncarnation, 0});
         payload->resize(payload->size() + 64);
       }},
      {"evicted, with a slice too many",
       [](uint8_t*, PushReply* r, Bytes* payload) {
         r->evicted = true;
         for (uint32_t i = 500; i < 700; ++i)
           r->slices.push_back({SliceId(i), SliceOutcome::kNotHere, true, testing::kIncarnation, 0});
         payload->resize(payload->size() + 64);
       }},
      {"another slice", [](uint8_t*, PushReply* r, Bytes*) { r->slices.back().slice = SliceId(600); }},
      {"four bytes too few", [](uint8_t*, PushReply*, Bytes* p) { p->resize(p->size() - 4); }},
      {"four bytes too many", [](uint8_t*, PushReply*, Bytes* p) { p->resize(p->size() + 4); }},
      {"no payload", [](uint8_t*, PushReply*, Bytes* p) { p->clear(); }},
      {"values that it says are not there",
       [](uint8_t*, PushReply* r, Bytes*) {
         for (auto& slice : r->slices) slice.values = false;
       }},
  };
  const auto table = testing::SmallTable();
  size_t elements = 0;
  for (const auto& slice : table.slices) elements += slice.elements();
  server_transport = Make(server_loop);
  for (const auto& lie : lies) {
    replies.clear();
    failures.clear();
    net::testing::Recorder liar;
    std::unique_ptr<net::Connection> connection;
    auto listening = server_transport->Listen("127.0.0.1:0", [&](std::unique_ptr<net::Connection> accepted) {
      connection = std::move(accepted);
      return &liar;
    });
    ASSERT_TRUE(listening.ok());
    MakeClient(table);
    Send(Pull(), kServer, (*listening)->address());
    ASSERT_TRUE(Run([&] { return liar.messages.size() == 1; })) << lie.name;
    uint8_t type = wire::FrameType::kPushReply;
    PushReply reply{.sequence = last_sequence, .generation = Generation(3)};
    for (const SliceId slice : AllSlices(table))
      reply.slices.push_back({slice, SliceOutcome::kPulled, true, testing::kIncarnation, 0});
    Bytes payload(elements * sizeof(float));
    lie.tell(&type, &reply, &payload);
    connection->Send(type, fields::Encode(reply), {ByteView(payload)});
    ASSERT_TRUE(Run([&] { return liar.closed.has_value(); })) << lie.name << ": the client hangs up";
    Settle();
    EXPECT_EQ(failures.size(), 1u) << lie.name;
    EXPECT_TRUE(replies.empty()) << lie.name;
    for (size_t v = 0; v < 3; ++v) EXPECT_TRUE(testing::All(parameters->values(v), 0.0f)) << lie.name;
    client.reset();
  }
}

TEST_P(MaliciousServerTest, AnUnrequestedReplyEndsOnlyItsConnection) {
  const auto table = testing::SmallTable();
  server_transport = Make(server_loop);
  std::deque<net::testing::Recorder> liars;
  std::vector<std::unique_ptr<net::Connection>> connections;
  auto listening = server_transport->Listen("127.0.0.1:0", [&](std::unique_ptr<net::Connection> accepted) {
    connections.push_back(std::move(accepted));
    return &liars.emplace_back();
  });
  ASSERT_TRUE(listening.ok());
  MakeClient(table);
  auto pull = Batch(0, {SliceId(0)}, Disposition::kPull);
  Send(pull, kServer, (*listening)->address());
  ASSERT_TRUE(Run([&] { return liars.size() == 1 && liars[0].messages.size() == 1; }));
  PushReply reply{.sequence = last_sequence};
  reply.slices.push_back({SliceId(0), SliceOutcome::kNotHere, false, testing::kIncarnation, 0});
  for (int i = 0; i < 2; ++i) connections[0]->Send(wire::FrameType::kPushReply, fields::Encode(reply), {});
  ASSERT_TRUE(Run([&] { return liars[0].closed.has_value(); }));
  Settle();
  EXPECT_EQ(replies.size(), 1u);
  EXPECT_TRUE(failures.empty());
  Send(pull, kServer, (*listening)->address());
  EXPECT_TRUE(Run([&] { return liars.size() == 2 && liars[1].messages.size() == 1; })) << "it connects again";
}

INSTANTIATE_TEST_SUITE_P(Transports, ClientTest, testing::TransportKinds(), testing::NameOf);
INSTANTIATE_TEST_SUITE_P(Transports, MaliciousServerTest, testing::TransportKinds(), testing::NameOf);

}  // namespace
}  // namespace leat::ps
