// 10,000 connections that violate the protocol: the server survives and answers at once.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "net/address.h"
#include "net/frames/handshake.h"
#include "net/rpc/client.h"
#include "net/rpc/codec.h"
#include "net/rpc/server.h"
#include "net/testing.h"

namespace leat::control {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kToken = "the job's token";
constexpr std::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
constexpr size_t kOpenAtOnce = 64;
const std::string kHello(AsText(wire::EncodeHello(ControlPort(), {})));

// ---- the part of HTTP/2 (RFC 9113) and HPACK (RFC 7541, literals only) that begins a call

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, const std::string& payload) {
  const auto n = payload.size();
  const unsigned char head[9] = {static_cast<unsigned char>(n >> 16),
                                 static_cast<unsigned char>(n >> 8),
                                 static_cast<unsigned char>(n),
                                 type,
                                 flags,
                                 static_cast<unsigned char>(stream >> 24),
                                 static_cast<unsigned char>(stream >> 16),
                                 static_cast<unsigned char>(stream >> 8),
                                 static_cast<unsigned char>(stream)};
  return std::string(reinterpret_cast<const char*>(head), sizeof(head)) + payload;
}

// A name and a value shorter than 127 bytes each.
std::string Field(std::string_view name, std::string_view value) {
  std::string field(1, '\0');
  field += static_cast<char>(name.size());
  field += name;
  field += static_cast<char>(value.size());
  field += value;
  return field;
}

std::string BeginCall() {
  const std::string headers = Field(":method", "POST") + Field(":scheme", "http") +
                              Field(":path", "/leat.control.v1.Control/Exchange") +
                              Field(":authority", "leat") + Field("te", "trailers") +
                              Field("content-type", "application/grpc");
  return std::string(kPreface) + Frame(4, 0, 0, "") + Frame(1, 4, 1, headers);
}

// The handshake that precedes HTTP/2.
Status Handshake(int fd, std::string_view token = kToken) {
  return net::testing::RawHandshake(fd, token, ControlPort());
}

// A gRPC message: uncompressed, its length, its bytes.
std::string Data(const std::string& message, uint8_t compressed = 0) {
  const auto n = message.size();
  std::string payload = {static_cast<char>(compressed), static_cast<char>(n >> 24),
                         static_cast<char>(n >> 16), static_cast<char>(n >> 8), static_cast<char>(n)};
  return Frame(0, 1, 1, payload + message);
}

std::string AskForStatus() {
  return std::string(AsText(Serialize(protocol::ControlRequest(protocol::StatusRequest{}))));
}

std::string Noise(Rng* rng, size_t most) {
  std::string noise(rng->Below(most), '\0');
  for (char& c : noise) c = static_cast<char>((*rng)());
  return noise;
}

// Traffic of a connection: `token` in a handshake, if it has one, then `bytes`.
struct Violation {
  std::optional<std::string> token;
  std::string bytes;
};

// A random violation, with or without the token.
Violation Something(Rng* rng) {
  const std::string good = AskForStatus();
  const std::string right(kToken);
  std::optional<std::string> token;
  if (rng->Chance(0.5)) token = right;
  switch (rng->Below(11)) {
    case 0:
      return {token, ""};
    case 1:
      return {token, Noise(rng, 2000)};
    case 2:
      return {token, std::string(kPreface.substr(0, rng->Below(kPreface.size())))};
    case 3:
      return {token, std::string(kPreface) + Noise(rng, 500)};
    case 4:
      return {token, "GET / HTTP/1.1\r\nHost: leat\r\n\r\n"};
    case 5:
      return {"not " + right, BeginCall() + Data(good)};
    case 6:
      return {token, BeginCall() + Data(Noise(rng, 300))};
    case 7:
      return {token, BeginCall() + Data(good, 1)};  // claims to be compressed
    case 8:
      return {std::nullopt, kHello.substr(0, rng->Below(wire::kHelloBytes))};
    case 9: {
      // Valid, then truncated or with changed bytes.
      std::string call = BeginCall() + Data(good);
      for (uint64_t n = rng->Below(3); n > 0; --n)
        call[rng->Below(call.size())] = static_cast<char>((*rng)());
      call.resize(call.size() - rng->Below(call.size()));
      return {right, call};
    }
    default: {
      std::string frames(kPreface);
      for (uint64_t n = 1 + rng->Below(8); n > 0; --n) {
        frames += Frame(static_cast<uint8_t>(rng->Below(12)), static_cast<uint8_t>((*rng)()),
                        static_cast<uint32_t>(rng->Below(6)), Noise(rng, 60));
      }
      return {token, frames};
    }
  }
}

int Connect(const net::HostPort& at) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(at.port);
  inet_pton(AF_INET, at.host.c_str(), &to.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) return -1;
  return fd;
}

class Robust : public ::testing::Test {
 protected:
  void SetUp() override {
    auto server = ControlServer::Start("127.0.0.1:0", std::string(kToken), [this](auto, auto reply) {
      ++handled_;
      reply(protocol::StatusReply{"{}"});
    });
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    at_ = *net::ParseAddress(server_->address());
  }

  // Bytes that are received until the server closes the connection or is silent for that long.
  static std::string Exchange(int fd, const std::string& bytes, size_t enough, int milliseconds = 60'000) {
    EXPECT_GE(fd, 0);
    (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);  // the peer may have closed
    std::string answer;
    pollfd wait{fd, POLLIN, 0};
    char buffer[4096];
    while (answer.size() < enough && poll(&wait, 1, milliseconds) == 1) {
      const ssize_t n = recv(fd, buffer, sizeof(buffer), 0);
      if (n <= 0) break;
      answer.append(buffer, static_cast<size_t>(n));
    }
    return answer;
  }
  std::string Exchange(std::string_view token, const std::string& bytes, size_t enough) {
    const int fd = Connect(at_);
    EXPECT_TRUE(Handshake(fd, token).ok());
    const std::string answer = Exchange(fd, bytes, enough);
    close(fd);
    return answer;
  }

  std::unique_ptr<ControlServer> server_;
  net::HostPort at_;
  std::atomic<int> handled_ = 0;
};

// Without this check of the frames above, the test below could pass without testing anything.
TEST_F(Robust, TheHandMadeCallIsACall) {
  // Not compared further, which would need an HPACK decoder.
  const std::string answer = Exchange(kToken, BeginCall() + Data(AskForStatus()), 150);
  EXPECT_NE(answer.find("{}"), std::string::npos);
  EXPECT_EQ(handled_, 1);
  const std::string garbage = Exchange(kToken, BeginCall() + Data("\xff\xff\xff"), 150);
  EXPECT_NE(garbage.find("control request: is cut off"), std::string::npos);
  EXPECT_EQ(handled_, 1);
}

TEST_F(Robust, NothingIsReadFromUnauthenticatedPeers) {
  const std::string call = BeginCall() + Data(AskForStatus());
  const int peer = Connect(at_);
  EXPECT_EQ(Exchange(peer, call, 1), "");
  close(peer);
  const int other = Connect(at_);
  EXPECT_EQ(Handshake(other, "wrong").code(), Code::kPermissionDenied);
  EXPECT_EQ(Exchange(other, call, 1), "");
  close(other);
  EXPECT_EQ(handled_, 0);
}

TEST_F(Robust, TheEndWaitsForAnAnswerThatIsOnItsWay) {
  constexpr int kText = 100'000;  // more than flow control lets the server send unrequested
  auto server = ControlServer::Start("127.0.0.1:0", std::string(kToken), [](auto, auto reply) {
    reply(protocol::StatusReply{std::string(kText, '!')});
  });
  ASSERT_TRUE(server.ok()) << server.status().ToString();
  const int fd = Connect(*net::ParseAddress((*server)->address()));
  ASSERT_TRUE(Handshake(fd).ok());
  std::string answer = Exchange(fd, BeginCall() + Data(AskForStatus()), kText / 2);
  std::thread end([&] { server->reset(); });
  answer += Exchange(fd, "", kText, 20);
  const std::string more = {0, 1, 0, 0};
  answer += Exchange(fd, Frame(8, 0, 0, more) + Frame(8, 0, 1, more), kText);
  EXPECT_EQ(std::ranges::count(answer, '!'), kText);
  end.join();
  close(fd);
}

// However many unauthenticated peers connect, a member's heartbeats are answered on its connection, in time.
TEST_F(Robust, AFloodOfUnauthenticatedPeersCostsAMemberNothing) {
  const auto member = ControlClient::Make(server_->address(), std::string(kToken));
  ASSERT_TRUE(member->Call(protocol::StatusRequest{}, 30s).ok());
  std::atomic<bool> over = false;
  std::vector<std::thread> attackers;
  for (int t = 0; t < 3; ++t) {
    attackers.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i) {
        const int fd = Connect(at_);
        ASSERT_GE(fd, 0) << i;
        (void)send(fd, kPreface.data(), kPreface.size() - static_cast<size_t>(i % 3), MSG_NOSIGNAL);
        close(fd);
      }
    });
  }
  std::thread last([&] {
    for (auto& attacker : attackers) attacker.join();
    over = true;
  });
  while (!over) {
    const auto reply = member->Call(protocol::StatusRequest{}, 30s);
    EXPECT_TRUE(reply.ok()) << reply.status().ToString();
  }
  last.join();
}

TEST_F(Robust, TenThousandWrongConnectionsLeaveItAlive) {
  Rng rng(1);
  const auto client = ControlClient::Make(server_->address(), std::string(kToken));
  std::deque<int> open;
  for (int i = 0; i < 10'000; ++i) {
    const int fd = Connect(at_);
    ASSERT_GE(fd, 0) << i;
    const Violation violation = Something(&rng);
    if (violation.token) (void)Handshake(fd, *violation.token);
    (void)send(fd, violation.bytes.data(), violation.bytes.size(), MSG_NOSIGNAL);
    // Some disconnect at once, most later.
    if (rng.Chance(0.1)) {
      const linger reset{1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      close(fd);
    } else {
      open.push_back(fd);
    }
    if (open.size() > kOpenAtOnce) {
      close(open.front());
      open.pop_front();
    }
    if (i % 1000 == 999) {
      const auto reply = client->Call(protocol::StatusRequest{}, 30s);
      ASSERT_TRUE(reply.ok()) << i << ": " << reply.status().ToString();
    }
  }
  for (const int fd : open) close(fd);
  const auto fresh = ControlClient::Make(server_->address(), std::string(kToken));
  EXPECT_TRUE(fresh->Call(protocol::StatusRequest{}, 30s).ok());
  EXPECT_GE(handled_, 11);
}

}  // namespace
}  // namespace leat::control
