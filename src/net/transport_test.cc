// The contract of Transport, tested with every transport.
#include "net/transport.h"

#include <gtest/gtest.h>

#include <thread>

#include "net/fault/testing.h"
#include "net/inproc/testing.h"
#include "net/testing.h"
#include "net/tls/testing.h"
#include "net/transports.h"

namespace leat::net {
namespace {

using testing::Message;
using testing::RandomBytes;
using testing::Recorder;
using testing::RunUntil;

constexpr Duration kSoonTransport = std::chrono::seconds(60);

void BeBusyFor(Duration time) {
  const Time until = MonotonicClock().Now() + time;
  while (MonotonicClock().Now() < until) {
  }
}

struct Kind {
  const char* name;
  bool one_loop;  // both ends on the same loop
  std::function<std::unique_ptr<Transport>(Loop&, TransportOptions)> make;
};

std::shared_ptr<InprocHub>& Hub() {
  static std::shared_ptr<InprocHub> hub;
  return hub;
}
std::unique_ptr<Transport> MakeInproc(Loop& loop, TransportOptions options) {
  if (Hub() == nullptr) Hub() = std::make_shared<InprocHub>();
  return MakeInprocTransport(loop, Hub(), std::move(options));
}
// As between hosts, with a UCX transport that needs no hardware.
std::unique_ptr<Transport> MakeUcxNetwork(Loop& loop, TransportOptions options) {
  options.shared_memory = false;
  options.trusted_network = true;
  options.network_transports = "tcp";
  return MakeUcxTransport(loop, std::move(options));
}
std::unique_ptr<Transport> MakeQuietFault(Loop& loop, TransportOptions options) {
  return MakeFaultTransport(loop, MakeTcpTransport(loop, std::move(options)), std::make_shared<Faults>());
}

std::unique_ptr<Transport> MakeTls(Loop& loop, TransportOptions options) {
  options.tls = testing::AnyRole();
  return MakeTcpTransport(loop, std::move(options));
}
// Shared memory after a handshake with TLS.
std::unique_ptr<Transport> MakeUcxTls(Loop& loop, TransportOptions options) {
  options.tls = testing::AnyRole();
  return MakeUcxTransport(loop, std::move(options));
}

class TransportTest : public ::testing::TestWithParam<Kind> {
 protected:
  // Connects a client to a server.
  void Connect(TransportOptions options = {.token = "t"}) {
    Listen(options);
    Dial(options);
    ASSERT_TRUE(Run([&] { return client != nullptr && server != nullptr; }));
  }
  void Listen(const TransportOptions& options) {
    server_transport = GetParam().make(server_loop(), options);
    auto listening = server_transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
      server = std::move(connection);
      return &at_server;
    });
    ASSERT_TRUE(listening.ok()) << listening.status().ToString();
    listener = std::move(*listening);
  }
  void Dial(const TransportOptions& options, Duration deadline = kSoonTransport) {
    client_transport = GetParam().make(client_loop_, options);
    client_transport->Connect(listener->address(), &at_client, deadline,
                              [&](Result<std::unique_ptr<Connection>> connection) {
                                if (connection.ok()) client = std::move(*connection);
                                dialled = connection.status();
                              });
  }
  bool Run(const std::function<bool()>& condition) { return RunUntil(loops(), condition); }
  // Runs until everything in transit has arrived.
  void Settle() {
    for (int i = 0; i < 50; ++i) {
      for (Loop* loop : loops()) loop->RunOnce({});
    }
  }
  std::vector<Loop*> loops() {
    return GetParam().one_loop ? std::vector<Loop*>{&client_loop_}
                               : std::vector<Loop*>{&client_loop_, &server_loop_};
  }
  Loop& client_loop() { return client_loop_; }
  Loop& server_loop() { return GetParam().one_loop ? client_loop_ : server_loop_; }

  void TearDown() override {
    EXPECT_EQ(at_server.violations, 0);
    EXPECT_EQ(at_client.violations, 0);
  }

 private:
  Loop client_loop_, server_loop_;

 protected:
  Recorder at_server, at_client;
  std::unique_ptr<Transport> server_transport, client_transport;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> server, client;
  std::optional<Status> dialled;
};

std::vector<ByteView> Views(const Bytes& bytes, size_t piece) {
  std::vector<ByteView> views;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    views.push_back(ByteView(bytes).subspan(at, std::min(piece, bytes.size() - at)));
  }
  return views;
}

TEST_P(TransportTest, MessagesArriveInOrderBothWays) {
  Connect();
  std::vector<Message> messages;
  Rng rng(7);
  for (int i = 0; i < 60; ++i) {
    const size_t header = rng.Below(i % 7 == 0 ? 200000 : 100);
    const size_t payload = i % 3 == 0 ? 0 : rng.Below(i % 5 == 0 ? 3000000 : 30000);
    messages.push_back({static_cast<uint8_t>(i), RandomBytes(header, rng()), RandomBytes(payload, rng())});
  }
  size_t sent = 0;
  for (const auto& message : messages) {
    for (Connection* end : {client.get(), server.get()}) {
      end->Send(message.type, message.header, Views(message.payload, 100000), [&](const Status& status) {
        EXPECT_TRUE(status.ok());
        ++sent;
      });
    }
  }
  ASSERT_TRUE(Run([&] {
    return at_client.messages.size() == messages.size() && at_server.messages.size() == messages.size() &&
           sent == 2 * messages.size();
  }));
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_TRUE(at_client.messages[i] == messages[i]) << i;
    EXPECT_TRUE(at_server.messages[i] == messages[i]) << i;
  }
}

TEST_P(TransportTest, SegmentsAreReportedAsTheyFill) {
  Connect();
  const Bytes payload = RandomBytes(5 << 20, 1);
  at_server.cut = [](std::span<std::byte> all) {
    // Empty spans at the beginning, in the middle and at the end; small and large.
    return std::vector{
        all.first(0), all.first(3), all.subspan(3, 0), all.subspan(3, 1 << 20), all.subspan(3 + (1 << 20)),
        all.last(0)};
  };
  std::vector<size_t> told;
  at_server.on_segment = [&](Connection&, size_t i) {
    told.push_back(i);
    const auto& span = at_server.spans[i];
    const auto offset = span.data() - at_server.now.payload.data();
    EXPECT_TRUE(std::equal(span.begin(), span.end(), payload.begin() + offset)) << i;
  };
  client->Send(1, {}, Views(payload, 1 << 19));
  ASSERT_TRUE(Run([&] { return at_server.messages.size() == 1; }));
  EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
}

TEST_P(TransportTest, ManySmallSegments) {
  Connect();
  const Bytes payload = RandomBytes(300000, 1);
  at_server.cut = [](std::span<std::byte> all) {
    Spans spans;
    for (size_t at = 0; at < all.size(); at += 100) spans.push_back(all.subspan(at, 100));
    return spans;
  };
  client->Send(1, {}, Views(payload, 7));
  ASSERT_TRUE(Run([&] { return at_server.messages.size() == 1; }));
  EXPECT_TRUE(at_server.messages[0].payload == payload);
}

TEST_P(TransportTest, SpansFarEnoughApartMayShareMemory) {
  Connect();
  const Bytes payload = RandomBytes(24 << 20, 1);
  constexpr size_t kSpan = 100 << 10;
  Bytes ring(kReadAhead + 2 * kSpan);
  at_server.cut = [&](std::span<std::byte> all) {
    Spans spans;
    size_t at = 0;
    for (size_t begin = 0; begin < all.size(); begin += kSpan) {
      const size_t size = std::min(kSpan, all.size() - begin);
      if (at + size > ring.size()) at = 0;
      spans.push_back(std::span(ring).subspan(at, size));
      at += size;
    }
    return spans;
  };
  size_t right = 0;
  at_server.on_segment = [&](Connection&, size_t i) {
    const auto& span = at_server.spans[i];
    right +=
        std::equal(span.begin(), span.end(), payload.begin() + static_cast<ptrdiff_t>(i * kSpan)) ? 1 : 0;
  };
  client->Send(1, {}, {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return at_server.messages.size() == 1; }));
  EXPECT_EQ(right, (payload.size() + kSpan - 1) / kSpan);
}

TEST_P(TransportTest, AnswersFromWithinUpcalls) {
  Connect();
  const Bytes payload = RandomBytes(16384, 1);
  at_server.on_message = [&](Connection& connection) { connection.Send(2, Bytes(8), {ByteView(payload)}); };
  at_client.on_message = [&](Connection& connection) {
    if (at_client.messages.size() < 500) connection.Send(1, Bytes(8), {ByteView(payload)});
  };
  client->Send(1, Bytes(8), {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return at_client.messages.size() == 500; }));
  for (const auto& message : at_client.messages) EXPECT_TRUE(message.payload == payload);
}

TEST_P(TransportTest, ClosingTellsBothEndsOnce) {
  Connect();
  client->Close(Status(Code::kAborted, "enough"));
  EXPECT_FALSE(at_client.closed.has_value()) << "from within Close";
  client->Close(Status(Code::kAborted, "again"));
  ASSERT_TRUE(Run([&] { return at_client.closed && at_server.closed; }));
  EXPECT_EQ(*at_client.closed, Status(Code::kAborted, "enough"));
  EXPECT_EQ(at_server.closed->code(), Code::kUnavailable);
  Settle();  // the recorder counts a second callback as a violation
}

TEST_P(TransportTest, ADestroyedConnectionMakesNoUpcall) {
  Connect();
  const Bytes payload(1 << 20);
  int told = 0;
  client->Send(1, {}, {ByteView(payload)}, [&](const Status&) { ++told; });
  server->Send(1, {}, {ByteView(payload)});
  at_client.on_message = [&](Connection&) { ++told; };
  client.reset();
  ASSERT_TRUE(Run([&] { return at_server.closed.has_value(); }));
  Settle();
  EXPECT_FALSE(at_client.closed.has_value());
  EXPECT_EQ(told, 0);
}

// Owns its connection and itself, and destroys both in one of its callbacks.
struct SelfDeletingReceiver : Receiver {
  enum class In { kHeader, kSegment, kMessage, kClosed };
  SelfDeletingReceiver(In its_moment, bool* its_end) : moment(its_moment), ended(its_end) {}
  ~SelfDeletingReceiver() override { *ended = true; }
  bool EndIf(In now) {
    if (now != moment) return false;
    delete this;
    return true;
  }
  Places OnHeader(Connection&, uint8_t, ByteView, uint64_t size) override {
    static Bytes room;
    room.resize(size);
    Spans spans{room};
    EndIf(In::kHeader);
    return spans;
  }
  void OnSegment(Connection&, size_t) override { EndIf(In::kSegment); }
  void OnMessage(Connection& now) override {
    if (!EndIf(In::kMessage)) now.Close(Status(Code::kAborted, "enough"));
  }
  void OnClosed(Connection&, const Status&) override { EndIf(In::kClosed); }
  const In moment;
  bool* const ended;
  std::unique_ptr<Connection> connection;
};

TEST_P(TransportTest, AnyUpcallMayDestroyConnectionAndReceiver) {
  using In = SelfDeletingReceiver::In;
  for (const In moment : {In::kHeader, In::kSegment, In::kMessage, In::kClosed}) {
    for (const size_t size : {0, 100, 3 << 20}) {
      if (size == 0 && moment == In::kSegment) continue;
      bool ended = false;
      server_transport = GetParam().make(server_loop(), {});
      auto listening = server_transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
        auto* receiver = new SelfDeletingReceiver(moment, &ended);
        receiver->connection = std::move(connection);
        return receiver;
      });
      ASSERT_TRUE(listening.ok());
      listener = std::move(*listening);
      client.reset();
      at_client = {};
      Dial({});
      ASSERT_TRUE(Run([&] { return client != nullptr; }));
      const Bytes payload(size);
      client->Send(1, Bytes(10), {ByteView(payload)});
      client->Send(1, Bytes(10), {ByteView(payload)});
      ASSERT_TRUE(Run([&] { return ended && at_client.closed; })) << static_cast<int>(moment) << " " << size;
      client.reset();
    }
  }
}

TEST_P(TransportTest, MayBeDestroyedInDone) {
  Connect();
  const Bytes payload(100);
  client->Send(1, {}, {ByteView(payload)}, [&](const Status&) { client.reset(); });
  client->Send(1, {}, {ByteView(payload)}, [&](const Status&) { FAIL() << "it is destroyed"; });
  ASSERT_TRUE(Run([&] { return at_server.closed.has_value(); }));
  EXPECT_EQ(client, nullptr);
  EXPECT_FALSE(at_client.closed.has_value());
}

TEST_P(TransportTest, WhatIsNotSentIsReportedWhenItCloses) {
  Connect();
  const Bytes payload(64 << 20);  // more than all buffers in between hold
  std::vector<Code> told;
  for (int i = 0; i < 3; ++i) {
    client->Send(1, {}, {ByteView(payload)}, [&](const Status& status) { told.push_back(status.code()); });
  }
  client->Close(Status(Code::kAborted, "enough"));
  EXPECT_TRUE(told.empty());
  client->Send(1, {}, {ByteView(payload)}, [&](const Status& status) { told.push_back(status.code()); });
  ASSERT_TRUE(Run([&] { return at_client.closed && told.size() == 4; }));
  EXPECT_EQ(told, (std::vector{Code::kAborted, Code::kAborted, Code::kAborted, Code::kUnavailable}));
}

TEST_P(TransportTest, AllThatWasSentArrivesBeforeTheEnd) {
  Connect();
  const Bytes payload = RandomBytes(3 << 20, 1);
  client->Send(1, {}, {ByteView(payload)},
               [&](const Status&) { client->Close(Status(Code::kAborted, "x")); });
  ASSERT_TRUE(Run([&] { return at_server.closed.has_value(); }));
  ASSERT_EQ(at_server.messages.size(), 1u);
  EXPECT_TRUE(at_server.messages[0].payload == payload);
}

TEST_P(TransportTest, NoMemoryIsTouchedOnceClosed) {
  // The spans and the payload are freed as early as the contract allows; ASan detects later use.
  Connect();
  auto payload = std::make_unique<Bytes>(RandomBytes(16 << 20, 1));
  auto room = std::make_unique<Bytes>(payload->size());
  at_server.cut = [&](std::span<std::byte>) {
    const std::span<std::byte> all = *room;
    return std::vector{all.first(1 << 20), all.subspan(1 << 20)};
  };
  at_server.on_segment = [&](Connection& connection, size_t i) {
    ASSERT_EQ(i, 0u);
    connection.Close(Status(Code::kAborted, "enough"));
    room.reset();
  };
  client->Send(1, {}, {ByteView(*payload)}, [&](const Status&) { payload.reset(); });
  ASSERT_TRUE(Run([&] { return at_server.closed && at_client.closed; }));
  EXPECT_EQ(payload, nullptr);
  EXPECT_EQ(room, nullptr);
  EXPECT_TRUE(at_server.messages.empty());
}

TEST_P(TransportTest, DestroyedInTheMiddleOfSending) {
  Connect();
  auto payload = std::make_unique<Bytes>(RandomBytes(16 << 20, 1));
  at_server.cut = [](std::span<std::byte> all) {
    return std::vector{all.first(1 << 20), all.subspan(1 << 20)};
  };
  bool begun = false;
  at_server.on_segment = [&](Connection&, size_t) { begun = true; };
  client->Send(1, {}, {ByteView(*payload)});
  ASSERT_TRUE(Run([&] { return begun; }));
  client.reset();
  payload.reset();
  ASSERT_TRUE(Run([&] { return at_server.closed.has_value(); }));
  EXPECT_EQ(at_server.closed->code(), Code::kUnavailable);
}

TEST_P(TransportTest, AReceiverThatRefusesClosesIt) {
  Connect();
  at_server.refuse_headers = true;
  client->Send(1, Bytes(10), {});
  ASSERT_TRUE(Run([&] { return at_client.closed && at_server.closed; }));
  EXPECT_EQ(at_server.closed->code(), Code::kDataLoss);
}

TEST_P(TransportTest, RoomThatDoesNotAddUpClosesIt) {
  Connect();
  at_server.cut = [](std::span<std::byte> all) { return std::vector{all.first(all.size() - 1)}; };
  const Bytes payload(10);
  client->Send(1, {}, {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return at_client.closed && at_server.closed; }));
  EXPECT_EQ(at_server.closed->code(), Code::kInternal);
}

TEST_P(TransportTest, MessagesBeyondTheLimitsAreRefusedAtBothEnds) {
  Listen({.token = "t", .max_header_bytes = 100, .max_payload_bytes = 1000});
  Dial({.token = "t", .max_header_bytes = 200, .max_payload_bytes = 2000});
  ASSERT_TRUE(Run([&] { return client != nullptr && server != nullptr; }));
  std::optional<Status> refused;
  client->Send(1, Bytes(201), {}, [&](const Status& status) { refused = status; });
  ASSERT_TRUE(Run([&] { return refused.has_value(); }));
  EXPECT_EQ(refused->code(), Code::kInvalidArgument);
  EXPECT_FALSE(at_client.closed.has_value());
  const Bytes payload(1001);
  client->Send(1, {}, {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return at_client.closed && at_server.closed; }));
  EXPECT_EQ(at_server.closed->code(), Code::kDataLoss);
  EXPECT_TRUE(at_server.messages.empty());
}

TEST_P(TransportTest, AnotherTokenIsNotLetIn) {
  Listen({.token = "right"});
  Dial({.token = "wrong"});
  ASSERT_TRUE(Run([&] { return dialled.has_value(); }));
  EXPECT_EQ(dialled->code(), Code::kPermissionDenied);
  EXPECT_NE(dialled->message().find("cannot connect to " + listener->address()), std::string::npos)
      << dialled->message();
  EXPECT_EQ(server, nullptr);
}

TEST_P(TransportTest, NobodyThere) {
  Listen({});
  const std::string address = listener->address();
  client_transport = GetParam().make(client_loop(), {});
  auto copy = std::move(listener);
  copy.reset();
  client_transport->Connect(
      address, &at_client, kSoonTransport,
      [&](Result<std::unique_ptr<Connection>> connection) { dialled = connection.status(); });
  EXPECT_FALSE(dialled.has_value()) << "from within Connect";
  ASSERT_TRUE(Run([&] { return dialled.has_value(); }));
  EXPECT_EQ(dialled->code(), Code::kUnavailable);
  EXPECT_NE(dialled->message().find(address), std::string::npos) << dialled->message();
}

TEST_P(TransportTest, AnAddressInUseIsNamed) {
  Listen({});
  auto second = server_transport->Listen(listener->address(), [](auto) { return nullptr; });
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("cannot listen on " + listener->address()), std::string::npos)
      << second.status().message();
  const std::string address = listener->address();
  listener.reset();
  EXPECT_TRUE(server_transport->Listen(address, [](auto) { return nullptr; }).ok());
}

TEST_P(TransportTest, NotAnAddress) {
  server_transport = GetParam().make(server_loop(), {});
  for (const char* bad : {"", "127.0.0.1", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "::1:80"}) {
    EXPECT_FALSE(server_transport->Listen(bad, [](auto) { return nullptr; }).ok()) << bad;
    std::optional<Status> told;
    server_transport->Connect(bad, &at_client, kSoonTransport,
                              [&](auto connection) { told = connection.status(); });
    ASSERT_TRUE(Run([&] { return told.has_value(); })) << bad;
    EXPECT_FALSE(told->ok()) << bad;
  }
}

TEST_P(TransportTest, TurnedAway) {
  server_transport = GetParam().make(server_loop(), {});
  auto listening = server_transport->Listen("127.0.0.1:0", [](auto) { return nullptr; });
  ASSERT_TRUE(listening.ok());
  listener = std::move(*listening);
  Dial({});
  ASSERT_TRUE(Run([&] { return client != nullptr && at_client.closed; }));
}

TEST_P(TransportTest, NoMoreConnectionsThanAllowed) {
  const TransportOptions options{.token = "t", .max_connections = 2};
  std::vector<std::unique_ptr<Connection>> accepted;
  server_transport = GetParam().make(server_loop(), options);
  auto listening = server_transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
    accepted.push_back(std::move(connection));
    return &at_server;
  });
  ASSERT_TRUE(listening.ok());
  listener = std::move(*listening);
  client_transport = GetParam().make(client_loop(), options);
  std::vector<std::unique_ptr<Connection>> connected;
  int failed = 0;
  const auto dial = [&] {
    client_transport->Connect(listener->address(), &at_client, kSoonTransport,
                              [&](Result<std::unique_ptr<Connection>> connection) {
                                if (connection.ok()) connected.push_back(std::move(*connection));
                                failed += connection.ok() ? 0 : 1;
                              });
  };
  for (int i = 0; i < 3; ++i) dial();
  ASSERT_TRUE(Run([&] { return connected.size() + static_cast<size_t>(failed) == 3; }));
  EXPECT_EQ(connected.size(), 2u);
  accepted.pop_back();  // makes room again
  dial();
  ASSERT_TRUE(Run([&] { return connected.size() == 3; }));
}

TEST_P(TransportTest, AcceptedConnectionsOutliveListenerAndTransport) {
  Connect();
  listener.reset();
  server_transport.reset();
  client_transport.reset();
  client->Send(1, Bytes(3), {});
  ASSERT_TRUE(Run([&] { return at_server.messages.size() == 1; }));
}

TEST_P(TransportTest, ATransportThatIsGoneFinishesNoConnect) {
  Listen({});
  Dial({});
  client_transport.reset();
  Settle();
  EXPECT_FALSE(dialled.has_value());
}

TEST_P(TransportTest, ListenerDestroyedByWhatItAccepts) {
  server_transport = GetParam().make(server_loop(), {});
  auto listening = server_transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
    server = std::move(connection);
    const std::string address = listener->address();
    listener.reset();
    return &at_server;
  });
  ASSERT_TRUE(listening.ok());
  listener = std::move(*listening);
  Dial({});
  ASSERT_TRUE(Run([&] { return client != nullptr && server != nullptr; }));
  client->Send(1, Bytes(3), {});
  ASSERT_TRUE(Run([&] { return at_server.messages.size() == 1; }));
}

// Each end on its own loop, which may be paused or run on another thread.
class TwoLoopTransportTest : public TransportTest {};

TEST_P(TwoLoopTransportTest, APeerThatDoesNotReceiveIsGivenUp) {
  Connect({.token = "t", .stall_timeout = std::chrono::milliseconds(50)});
  const Bytes payload(64 << 20);
  std::optional<Status> told;
  client->Send(1, {}, {ByteView(payload)}, [&](const Status& status) { told = status; });
  ASSERT_TRUE(RunUntil(client_loop(), [&] { return at_client.closed.has_value(); }));
  EXPECT_EQ(at_client.closed->code(), Code::kDeadlineExceeded);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->code(), Code::kDeadlineExceeded);
}

TEST_P(TransportTest, ASlowButMovingTransferIsNotGivenUp) {
  // Each segment takes a good part of the timeout, all of them many times as long.
  constexpr Duration kStall = std::chrono::milliseconds(160);
  Connect({.token = "t", .stall_timeout = kStall});
  const Bytes payload = RandomBytes(8 << 20, 1);
  at_server.cut = [](std::span<std::byte> all) {
    Spans spans;
    for (size_t at = 0; at < all.size(); at += 1 << 20) spans.push_back(all.subspan(at, 1 << 20));
    return spans;
  };
  at_server.on_segment = [&](Connection&, size_t) { BeBusyFor(kStall / 6); };
  client->Send(1, {}, {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return at_server.messages.size() == 1 || at_server.closed; }));
  EXPECT_FALSE(at_server.closed.has_value()) << at_server.closed->ToString();
}

TEST_P(TransportTest, OneBusyConnectionDoesNotStarveAnother) {
  Connect();
  // The first client pushes large messages without end; a small one of the second is answered meanwhile.
  const Bytes large(8 << 20);
  std::function<void()> push = [&] {
    client->Send(1, {}, {ByteView(large)}, [&](const Status&) { push(); });
  };
  auto busy = std::move(server);
  push();
  ASSERT_TRUE(Run([&] { return at_server.messages.size() > 2; }));
  at_server.on_message = [](Connection& connection) { connection.Send(2, Bytes(1), {}); };
  Recorder small;
  std::unique_ptr<Connection> second;
  client_transport->Connect(listener->address(), &small, kSoonTransport, [&](auto connection) {
    second = std::move(*connection);
    second->Send(1, Bytes(1), {});
  });
  ASSERT_TRUE(Run([&] { return small.messages.size() == 1; }));
  EXPECT_EQ(small.violations, 0);
  client.reset();            // before the objects that it refers to
  at_server.violations = 0;  // a single recorder for two connections
}

TEST_P(TwoLoopTransportTest, OneConnectionHasTheLoopForABoundedTime) {
  Connect();
  // The sender is faster than the receiver, so there is always more to read. Work posted anew in each
  // iteration sees how much was read.
  constexpr size_t kMessages = 48;
  size_t bytes_of_turn = 0, most = 0;
  at_server.cut = [](std::span<std::byte> all) {
    return std::vector{all.first(all.size() / 2), all.subspan(all.size() / 2)};
  };
  at_server.on_segment = [&](Connection&, size_t i) {
    bytes_of_turn += at_server.spans[i].size();
    most = std::max(most, bytes_of_turn);
    BeBusyFor(std::chrono::microseconds(300));
  };
  std::function<void()> turn = [&] {
    bytes_of_turn = 0;
    server_loop().Post(turn);
  };
  turn();
  const Bytes payload(1 << 20);
  std::thread sender([&] { client_loop().Run(); });
  client_loop().Post([&] {
    for (size_t i = 0; i < kMessages; ++i) client->Send(1, {}, {ByteView(payload)});
  });
  EXPECT_TRUE(RunUntil(server_loop(), [&] { return at_server.messages.size() == kMessages; }));
  client_loop().Stop();
  sender.join();
  EXPECT_LE(most, size_t{4} << 20);
}

TEST_P(TwoLoopTransportTest, AReceiverThatIsSlowDoesNotBlameItsPeer) {
  // Both loops run alternately on this thread, so nothing depends on scheduling.
  constexpr Duration kStall = std::chrono::milliseconds(20);
  Connect({.token = "t", .stall_timeout = kStall});
  at_server.cut = [](std::span<std::byte> all) {
    Spans spans;
    for (size_t at = 0; at < all.size(); at += 1 << 19) spans.push_back(all.subspan(at, 1 << 19));
    return spans;
  };
  at_server.on_segment = [&](Connection&, size_t) { BeBusyFor(3 * kStall / 2); };
  const Bytes payload(6 << 20);
  client->Send(1, {}, {ByteView(payload)});
  ASSERT_TRUE(Run([&] { return at_server.messages.size() == 1 || at_server.closed || at_client.closed; }));
  EXPECT_FALSE(at_server.closed.has_value()) << at_server.closed->ToString();
  EXPECT_FALSE(at_client.closed.has_value()) << at_client.closed->ToString();
}

TEST_P(TwoLoopTransportTest, APauseOfTheMachineIsNotAStall) {
  // As when a virtual machine is suspended in the middle of a message: the first end to run finds that
  // nothing has arrived for longer than the timeout, although the other could not send.
  constexpr Duration kStall = std::chrono::milliseconds(20);
  Connect({.token = "t", .stall_timeout = kStall});
  const Bytes payload = RandomBytes(6 << 20, 1);
  client->Send(1, {}, {ByteView(payload)});
  const Time end = MonotonicClock().Now() + kSoonTransport;
  const auto over = [&] { return !at_server.messages.empty() || at_server.closed || at_client.closed; };
  for (int pauses = 0; !over() && MonotonicClock().Now() < end;) {
    server_loop().RunOnce({});
    if (at_server.in_message && pauses++ < 6) {
      server_loop().RunOnce({});  // takes what has arrived
      BeBusyFor(3 * kStall / 2);
      if (pauses % 2 == 0) client_loop().RunOnce({});
      server_loop().RunOnce({});
    }
    client_loop().RunOnce({});
  }
  EXPECT_FALSE(at_server.closed.has_value()) << at_server.closed->ToString();
  EXPECT_FALSE(at_client.closed.has_value()) << at_client.closed->ToString();
  ASSERT_EQ(at_server.messages.size(), 1u);
  EXPECT_TRUE(at_server.messages[0].payload == payload);
}

TEST_P(TwoLoopTransportTest, TwoThreads) {
  Connect();
  const Bytes payload = RandomBytes(100000, 1);
  int echoes = 0;
  at_server.on_message = [&](Connection& connection) { connection.Send(2, {}, {ByteView(payload)}); };
  std::thread thread([&] { server_loop().Run(); });
  for (int i = 0; i < 10; ++i) client->Send(1, {}, {ByteView(payload)});
  at_client.on_message = [&](Connection& connection) {
    if (++echoes <= 300) connection.Send(1, {}, {ByteView(payload)});
  };
  EXPECT_TRUE(RunUntil(client_loop(), [&] { return echoes == 310; }));
  client.reset();  // while the other end is sending
  server_loop().Post([&] { server_loop().Stop(); });
  thread.join();
  server.reset();
  for (const auto& message : at_client.messages) EXPECT_TRUE(message.payload == payload);
}

const Kind kTcp{"Tcp", false, MakeTcpTransport};
const Kind kTcpOneLoop{"TcpOneLoop", true, MakeTcpTransport};
const Kind kTls{"Tls", false, MakeTls};
const Kind kTlsOneLoop{"TlsOneLoop", true, MakeTls};
const Kind kUcxTls{"UcxTls", false, MakeUcxTls};
const Kind kInproc{"Inproc", false, MakeInproc};
const Kind kInprocOneLoop{"InprocOneLoop", true, MakeInproc};
const Kind kUcx{"Ucx", false, MakeUcxTransport};
const Kind kUcxOneLoop{"UcxOneLoop", true, MakeUcxTransport};
const Kind kUcxNetwork{"UcxNetwork", false, MakeUcxNetwork};
const Kind kFault{"Fault", false, MakeQuietFault};

std::string NameOf(const ::testing::TestParamInfo<Kind>& instance) {
  return instance.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         ::testing::Values(kTcp, kTcpOneLoop, kTls, kTlsOneLoop, kUcx, kUcxOneLoop, kUcxTls,
                                           kUcxNetwork, kInproc, kInprocOneLoop, kFault),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(All, TwoLoopTransportTest,
                         ::testing::Values(kTcp, kTls, kUcx, kUcxTls, kUcxNetwork, kInproc, kFault), NameOf);

}  // namespace
}  // namespace leat::net
