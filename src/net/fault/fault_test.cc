#include "net/fault/testing.h"

#include <gtest/gtest.h>

#include "net/inproc/testing.h"
#include "net/testing.h"

namespace leat::net {
namespace {

using std::chrono::milliseconds;
using testing::RandomBytes;
using testing::Recorder;
using testing::RunUntil;

// A client whose incoming messages meet faults; both ends on one loop.
class FaultTest : public ::testing::Test {
 protected:
  void Connect(FaultSchedule schedule = {}) {
    if (faults == nullptr) faults = std::make_shared<Faults>(schedule);
    if (server_transport == nullptr) {
      server_transport = MakeFaultTransport(loop, MakeInprocTransport(loop, hub, {}), faults);
      listener = *server_transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
        server = std::move(connection);
        return &at_server;
      });
    }
    server.reset();
    client.reset();
    at_server = {};
    at_client = {};
    client_transport->Connect(listener->address(), &at_client, std::chrono::seconds(60),
                              [&](auto connection) {
                                ASSERT_TRUE(connection.ok());
                                client = std::move(*connection);
                              });
    ASSERT_TRUE(RunUntil(loop, [&] { return client != nullptr && server != nullptr; }));
  }
  void Send(uint8_t type) { client->Send(type, Bytes(3), {ByteView(payload)}); }
  bool Closed() {
    return RunUntil(loop, [&] { return at_server.closed && at_client.closed; });
  }
  void TearDown() override {
    EXPECT_EQ(at_server.violations, 0);
    EXPECT_EQ(at_client.violations, 0);
  }

  Loop loop;
  const Bytes payload = RandomBytes(100000, 1);
  std::shared_ptr<InprocHub> hub = std::make_shared<InprocHub>();
  std::shared_ptr<Faults> faults;
  std::unique_ptr<Transport> server_transport;
  std::unique_ptr<Transport> client_transport = MakeInprocTransport(loop, hub, {});
  Recorder at_server, at_client;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> server, client;
};

TEST_F(FaultTest, ADroppedMessageTakesItsConnectionWithIt) {
  Connect();
  faults->Next(Fault::kNone);
  faults->Next(Fault::kDrop);
  for (uint8_t i = 0; i < 3; ++i) Send(i);
  ASSERT_TRUE(Closed());
  ASSERT_EQ(at_server.messages.size(), 1u);
  EXPECT_TRUE(at_server.messages[0].payload == payload);
  EXPECT_FALSE(at_server.in_message);
  EXPECT_EQ(faults->count(Fault::kDrop), 1u);
}

TEST_F(FaultTest, CutInTheMiddleOfAPayload) {
  Connect();
  at_server.cut = [](std::span<std::byte> all) { return std::vector{all.first(40000), all.subspan(40000)}; };
  faults->Next(Fault::kCut);
  Send(1);
  ASSERT_TRUE(Closed());
  EXPECT_TRUE(at_server.in_message);
  EXPECT_EQ(at_server.segments, 1u);
  EXPECT_TRUE(at_server.messages.empty());
}

TEST_F(FaultTest, AStalledMessageEndsTheConnectionAfterTheTimeout) {
  Connect({.stall_timeout = milliseconds(30)});
  faults->Next(Fault::kStall);
  const Time begin = loop.Now();
  Send(1);
  Send(2);
  ASSERT_TRUE(Closed());
  EXPECT_GE(loop.Now() - begin, milliseconds(30));
  EXPECT_EQ(at_server.closed->code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(at_server.in_message);
  EXPECT_TRUE(at_server.messages.empty());
}

TEST_F(FaultTest, DelayedMessagesKeepTheirOrder) {
  Connect({.longest_delay = milliseconds(5)});
  for (uint8_t i = 0; i < 8; ++i) {
    faults->Next(i % 2 == 0 ? Fault::kDelay : Fault::kNone);
    Send(i);
  }
  ASSERT_TRUE(RunUntil(loop, [&] { return at_server.messages.size() == 8; }));
  for (uint8_t i = 0; i < 8; ++i) EXPECT_EQ(at_server.messages[i].type, i);
  EXPECT_EQ(faults->count(Fault::kDelay), 4u);
}

TEST_F(FaultTest, DropAllAndUnreachable) {
  Connect();
  faults->DropAll();
  ASSERT_TRUE(Closed());
  faults->set_unreachable(true);
  at_client = {};
  client.reset();
  client_transport->Connect(listener->address(), &at_client, std::chrono::seconds(60),
                            [&](auto connection) { client = std::move(*connection); });
  // Refused, as by a peer that fails right after it has accepted.
  ASSERT_TRUE(RunUntil(loop, [&] { return at_client.closed.has_value(); }));

  const auto at_edge = MakeFaultTransport(loop, MakeInprocTransport(loop, hub, {}), faults);
  std::optional<Status> dialled;
  at_edge->Connect(listener->address(), &at_client, std::chrono::seconds(60),
                   [&](auto connection) { dialled = connection.status(); });
  ASSERT_TRUE(RunUntil(loop, [&] { return dialled.has_value(); }));
  EXPECT_EQ(dialled->code(), Code::kUnavailable);
}

TEST_F(FaultTest, DropAllWhileOneIsConnectingAndOneIsGone) {
  Connect();
  server.reset();
  const auto at_edge = MakeFaultTransport(loop, MakeInprocTransport(loop, hub, {}), faults);
  Recorder late;
  std::unique_ptr<Connection> connection;
  at_edge->Connect(listener->address(), &late, std::chrono::seconds(60),
                   [&](auto result) { connection = std::move(*result); });
  faults->DropAll();
  ASSERT_TRUE(RunUntil(loop, [&] { return connection != nullptr; }));
  EXPECT_FALSE(late.closed.has_value());
}

TEST_F(FaultTest, ASeedDecidesEverything) {
  const auto run = [&](uint64_t seed) {
    faults = nullptr;
    listener.reset();
    server.reset();
    server_transport.reset();
    std::string story;
    for (int connection = 0; connection < 10; ++connection) {
      Connect({.seed = seed,
               .delay = 0.1,
               .drop = 0.05,
               .cut = 0.05,
               .stall = 0.05,
               .longest_delay = milliseconds(1),
               .stall_timeout = milliseconds(1)});
      for (uint8_t i = 0; i < 20; ++i) Send(i);
      EXPECT_TRUE(RunUntil(loop, [&] { return at_server.closed || at_server.messages.size() == 20; }));
      story += std::to_string(at_server.messages.size()) + (at_server.in_message ? "cut " : " ");
    }
    return story;
  };
  const std::string once = run(1);
  EXPECT_EQ(run(1), once);
  EXPECT_NE(run(2), once);
}

}  // namespace
}  // namespace leat::net
