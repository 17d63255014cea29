// Recorded and forged handshakes, and impostors that listen in the place of a role.
#include "net/handshake/handshake.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "base/log.h"
#include "net/address.h"
#include "net/frames/frame.h"
#include "net/same_host/same_host_peer.h"
#include "net/testing.h"

namespace leat::net {
namespace {

using testing::BareListener;
using testing::ConnectTo;
using testing::RandomBytes;
using testing::RawHandshake;
using testing::RunUntil;

constexpr Duration kSoon = std::chrono::seconds(60);
constexpr size_t kConnectsBytes = wire::kHelloBytes + wire::kProofBytes;
constexpr size_t kAcceptsBytes = wire::kChallengeBytes + wire::kVerdictBytes;

// Appends what has arrived.
void ReadInto(int fd, Bytes* bytes) {
  std::byte buffer[256];
  const ssize_t got = recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (got > 0) bytes->insert(bytes->end(), buffer, buffer + got);
}

void SendBytes(int fd, ByteView bytes) {
  (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

class HandshakeTest : public ::testing::Test {
 protected:
  HandshakeTest() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(log);
    previous = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
    spdlog::set_pattern("%v");
  }
  ~HandshakeTest() override { spdlog::set_default_logger(previous); }

  std::shared_ptr<TransportContext> Context(std::string token = "t", Duration timeout = kSoon) {
    TransportOptions options{.token = std::move(token), .handshake_timeout = timeout};
    return std::make_shared<TransportContext>(loop, options);
  }
  void Listen(Duration timeout = kSoon) {
    context = Context("t", timeout);
    auto listening = ListenAuthenticated(context, "127.0.0.1:0", [this](AuthenticatedSocket socket) {
      accepted.push_back(std::move(socket));
    });
    ASSERT_TRUE(listening.ok()) << listening.status().ToString();
    listener = std::move(*listening);
  }
  void Dial(const std::string& address, std::string token = "t") {
    outcome.reset();
    dial = ConnectAuthenticated(Context(std::move(token)), address, kSoon,
                                [this](auto result) { outcome.emplace(std::move(result)); });
  }
  bool Closed(int fd) {
    pollfd ends{.fd = fd, .events = POLLRDHUP, .revents = 0};
    return poll(&ends, 1, 0) == 1;
  }
  std::vector<std::string> Log() const {
    std::vector<std::string> lines;
    std::istringstream in(log.str());
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
  }

  std::ostringstream log;
  std::shared_ptr<spdlog::logger> previous;
  Loop loop;
  std::shared_ptr<TransportContext> context;
  std::unique_ptr<Listener> listener;
  std::vector<AuthenticatedSocket> accepted;
  std::shared_ptr<void> dial;
  std::optional<Result<AuthenticatedSocket>> outcome;
};

TEST_F(HandshakeTest, ARecordingProvesNothingToEitherSide) {
  Listen();
  // Records a handshake that is forwarded.
  BareListener impostor;
  Dial(impostor.address());
  for (int i = 0; i < 10; ++i) loop.RunOnce({});
  const Descriptor caller = impostor.Accept();
  const Descriptor forward(ConnectTo(listener->address()));
  Bytes connects;
  Bytes accepts;
  ASSERT_TRUE(RunUntil(loop, [&] {
    const size_t from = connects.size();
    const size_t to = accepts.size();
    ReadInto(caller.get(), &connects);
    SendBytes(forward.get(), ByteView(connects).subspan(from));
    ReadInto(forward.get(), &accepts);
    SendBytes(caller.get(), ByteView(accepts).subspan(to));
    return outcome.has_value();
  }));
  ASSERT_TRUE(outcome->ok()) << outcome->status().ToString();
  ASSERT_EQ(connects.size(), kConnectsBytes);
  ASSERT_EQ(accepts.size(), kAcceptsBytes);
  ASSERT_EQ(accepted.size(), 1u);

  // The connecting side's messages, at the listener.
  const Descriptor replay(ConnectTo(listener->address()));
  SendBytes(replay.get(), connects);
  Bytes answer;
  ASSERT_TRUE(RunUntil(loop, [&] {
    ReadInto(replay.get(), &answer);
    return answer.size() == kAcceptsBytes && Closed(replay.get());
  }));
  EXPECT_EQ(wire::DecodeVerdict(ByteView(answer).subspan(wire::kChallengeBytes)).code(),
            Code::kPermissionDenied);
  EXPECT_EQ(accepted.size(), 1u);
  ASSERT_EQ(Log().size(), 1u) << log.str();
  EXPECT_TRUE(Log()[0].starts_with(listener->address() + " refused 127.0.0.1:")) << log.str();
  EXPECT_TRUE(Log()[0].ends_with(": the peer has the token of another job")) << log.str();

  // The accepting side's messages, in its place.
  BareListener dead;
  Dial(dead.address());
  for (int i = 0; i < 10; ++i) loop.RunOnce({});
  const Descriptor second = dead.Accept();
  SendBytes(second.get(), accepts);
  ASSERT_TRUE(RunUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->status().code(), Code::kPermissionDenied);
  // Before the listener has proven itself, it learns a nonce and nothing else.
  Bytes told;
  ReadInto(second.get(), &told);
  EXPECT_EQ(told.size(), wire::kHelloBytes);
}

TEST_F(HandshakeTest, AnImpostorThatReturnsTheCallersMessagesLearnsNothing) {
  BareListener impostor;
  Dial(impostor.address());
  for (int i = 0; i < 10; ++i) loop.RunOnce({});
  const Descriptor caller = impostor.Accept();
  Bytes hello;
  ASSERT_TRUE(RunUntil(loop, [&] {
    ReadInto(caller.get(), &hello);
    return hello.size() == wire::kHelloBytes;
  }));
  hello.resize(wire::kChallengeBytes);
  hello[12] = std::byte{2};  // "accepts"
  SendBytes(caller.get(), hello);
  ASSERT_TRUE(RunUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->status().code(), Code::kPermissionDenied);
}

TEST_F(HandshakeTest, EachRefusalIsOneLine) {
  Listen(std::chrono::milliseconds(200));
  const auto refused = [&](const std::string& why) {
    const size_t before = Log().size();
    EXPECT_TRUE(RunUntil(loop, [&] { return Log().size() > before; })) << why;
    ASSERT_EQ(Log().size(), before + 1);
    EXPECT_TRUE(Log().back().ends_with(": " + why)) << Log().back() << " instead of: " << why;
  };
  const Bytes hello = wire::EncodeHello({wire::PortKind::kServer}, {});
  {
    const Descriptor peer(ConnectTo(listener->address()));
    SendBytes(peer.get(), RandomBytes(100, 1));
    refused("the peer's first bytes are not a hello of Leat");
  }
  {
    const Descriptor peer(ConnectTo(listener->address()));
    SendBytes(peer.get(), ByteView(hello).first(20));
    refused("no complete handshake before the deadline");
  }
  {
    Descriptor peer(ConnectTo(listener->address()));
    SendBytes(peer.get(), ByteView(hello).first(20));
    peer = Descriptor();
    refused("the connection was closed during the handshake");
  }
  {
    const Descriptor peer(ConnectTo(listener->address()));
    SendBytes(peer.get(), wire::EncodeHello({wire::PortKind::kControl}, {}));
    refused("the port belongs to a parameter server, the connection is for a coordinator");
  }
  {
    const Descriptor peer(ConnectTo(listener->address()));
    Bytes old = hello;
    old[8] = std::byte{2};
    SendBytes(peer.get(), old);
    const std::string here = std::to_string(wire::kVersion) + "-0000000000000000";
    refused("the peer is of another build: it speaks 2, this program " + here +
            "; run the same build on both sides");
    Bytes answer;
    ReadInto(peer.get(), &answer);
    EXPECT_EQ(answer, wire::EncodeMismatch({wire::PortKind::kServer}));
    const Descriptor other(ConnectTo(listener->address()));
    SendBytes(other.get(), wire::EncodeHello({wire::PortKind::kServer, 0xab}, {}));
    refused("the peer is of another build: it speaks " + std::to_string(wire::kVersion) +
            "-00000000000000ab, this program " + here + "; run the same build on both sides");
  }
  // A look whether the port is open is not worth a line.
  const uint64_t before = context->refused.value();
  close(ConnectTo(listener->address()));
  ASSERT_TRUE(RunUntil(loop, [&] { return context->refused.value() == before + 1; }));
  EXPECT_EQ(Log().size(), 6u);
}

TEST_F(HandshakeTest, AFloodDoesNotFillTheLog) {
  Listen();
  for (int i = 0; i < 200; ++i) {
    const Descriptor peer(ConnectTo(listener->address()));
    SendBytes(peer.get(), RandomBytes(100, 1));
    ASSERT_TRUE(RunUntil(loop, [&] { return context->refused.value() == static_cast<uint64_t>(i + 1); }));
  }
  EXPECT_LE(Log().size(), 40u) << log.str();
}

TEST_F(HandshakeTest, AFloodOfOneHostDoesNotDisplaceOthers) {
  TransportOptions options{.token = "t", .handshake_timeout = kSoon, .max_pending_handshakes = 10};
  context = std::make_shared<TransportContext>(loop, options);
  auto listening = ListenAuthenticated(context, "127.0.0.1:0", [](AuthenticatedSocket) {});
  ASSERT_TRUE(listening.ok());
  listener = std::move(*listening);
  std::vector<Descriptor> quiet;
  for (uint8_t host = 2; host < 5; ++host) quiet.emplace_back(ConnectTo(listener->address(), host));
  std::vector<Descriptor> flood;
  for (uint64_t i = 0; i < 100; ++i) flood.emplace_back(ConnectTo(listener->address()));
  ASSERT_TRUE(RunUntil(loop, [&] { return context->refused.value() == 93; }));
  for (const Descriptor& peer : quiet) EXPECT_FALSE(Closed(peer.get()));
  for (size_t i = 0; i < flood.size(); ++i) EXPECT_EQ(Closed(flood[i].get()), i < 93) << i;
}

TEST_F(HandshakeTest, OneHostCannotTakeAllConnections) {
  TransportOptions options{.token = "t", .max_connections = 5, .max_connections_of_host = 3};
  context = std::make_shared<TransportContext>(loop, options);
  auto listening = ListenAuthenticated(context, "127.0.0.1:0", [this](AuthenticatedSocket socket) {
    context->Accepted(HostOf(socket.peer));
    accepted.push_back(std::move(socket));
  });
  ASSERT_TRUE(listening.ok());
  listener = std::move(*listening);
  std::vector<Descriptor> peers;
  const auto connect = [&](uint8_t host) {
    peers.emplace_back(ConnectTo(listener->address(), host));
    return RawHandshake(peers.back().get(), "t", {wire::PortKind::kServer},
                        [this] { loop.RunOnce(std::chrono::milliseconds(1)); });
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(connect(1).ok());
  EXPECT_EQ(connect(1).code(), Code::kResourceExhausted);
  ASSERT_EQ(Log().size(), 1u);
  EXPECT_TRUE(Log()[0].ends_with(": too many connections of its host")) << log.str();
  EXPECT_TRUE(connect(2).ok());
  EXPECT_TRUE(connect(3).ok());
  EXPECT_EQ(connect(4).code(), Code::kResourceExhausted);
  EXPECT_TRUE(Log().back().ends_with(": too many connections")) << log.str();
  context->Ended("127.0.0.1");
  EXPECT_TRUE(connect(1).ok());
  EXPECT_EQ(connect(1).code(), Code::kResourceExhausted);
}

TEST_F(HandshakeTest, TheCallerSaysWhatIsWrong) {
  Listen();
  Dial(listener->address(), "another");
  ASSERT_TRUE(RunUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->status().code(), Code::kPermissionDenied);
  EXPECT_EQ(outcome->status().message(),
            "cannot connect to " + listener->address() + ": the peer has the token of another job");
  auto other = std::make_shared<TransportContext>(
      loop, TransportOptions{.token = "t", .port = {wire::PortKind::kMember}});
  outcome.reset();
  dial = ConnectAuthenticated(other, listener->address(), kSoon,
                              [this](auto result) { outcome.emplace(std::move(result)); });
  ASSERT_TRUE(RunUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->status().code(), Code::kFailedPrecondition);
  EXPECT_NE(outcome->status().message().find("the port belongs to a parameter server"), std::string::npos)
      << outcome->status().message();
  other = std::make_shared<TransportContext>(
      loop, TransportOptions{.token = "t", .port = {wire::PortKind::kServer, 0xab}});
  outcome.reset();
  dial = ConnectAuthenticated(other, listener->address(), kSoon,
                              [this](auto result) { outcome.emplace(std::move(result)); });
  ASSERT_TRUE(RunUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->status().code(), Code::kFailedPrecondition);
  EXPECT_NE(outcome->status().message().find("the peer is of another build: it speaks " +
                                             std::to_string(wire::kVersion) + "-0000000000000000, this"),
            std::string::npos)
      << outcome->status().message();
}

TEST_F(HandshakeTest, AHostThatDoesNotAnswerIsGivenUpBeforeTheDeadline) {
  const BareListener full(0);
  const Descriptor fills(ConnectTo(full.address()));  // nobody accepts it: the kernel answers no other
  context = std::make_shared<TransportContext>(
      loop, TransportOptions{.token = "t", .handshake_timeout = std::chrono::milliseconds(100)});
  dial = ConnectAuthenticated(context, full.address(), kSoon,
                              [this](auto result) { outcome.emplace(std::move(result)); });
  ASSERT_TRUE(RunUntil(
      loop, [&] { return outcome.has_value(); }, kSoon / 2));
  EXPECT_EQ(outcome->status().code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(outcome->status().message().ends_with("no answer from its host"))
      << outcome->status().message();
}

// Its kernel answers, so its host is not silent.
TEST_F(HandshakeTest, APeerThatDoesNotGreetIsUnavailable) {
  const BareListener silent(1);
  context = std::make_shared<TransportContext>(loop, TransportOptions{.token = "t"});
  dial = ConnectAuthenticated(context, silent.address(), std::chrono::milliseconds(100),
                              [this](auto result) { outcome.emplace(std::move(result)); });
  ASSERT_TRUE(RunUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->status().code(), Code::kUnavailable);
  EXPECT_TRUE(outcome->status().message().ends_with("no handshake before the deadline"))
      << outcome->status().message();
}

TEST_F(HandshakeTest, TakesLessThanFiveMilliseconds) {
  Listen();
  std::vector<Duration> times;
  for (int i = 0; i < 101; ++i) {
    const Time begin = loop.Now();
    Dial(listener->address());
    ASSERT_TRUE(RunUntil(loop, [&] { return outcome.has_value(); }));
    ASSERT_TRUE(outcome->ok()) << outcome->status().ToString();
    times.push_back(loop.Now() - begin);
  }
  std::ranges::sort(times);
  EXPECT_LT(times[times.size() / 2], std::chrono::milliseconds(5));
}

// The network is lost after the socket is connected. The peer's kernel drops whatever arrives.
TEST_F(HandshakeTest, AHostThatFallsSilentIsGivenUpBeforeTheDeadline) {
  BareListener impostor;
  Dial(impostor.address());
  for (int i = 0; i < 10; ++i) loop.RunOnce({});
  const Descriptor peer = impostor.Accept();
  sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog filter{.len = 1, .filter = &drop};
  ASSERT_EQ(setsockopt(peer.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
  ASSERT_TRUE(RunUntil(loop, [&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->status().code(), Code::kDeadlineExceeded);
  EXPECT_NE(outcome->status().ToString().find("no answer from its host"), std::string::npos)
      << outcome->status().ToString();
}

}  // namespace
}  // namespace leat::net
