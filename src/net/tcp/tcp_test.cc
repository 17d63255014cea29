// Unauthenticated peers, broken peers and a full process must not disturb the tcp transport.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "net/frames/frame.h"
#include "net/testing.h"
#include "net/transports.h"
#include "protocol/messages_data.h"

namespace leat::net {
namespace {

using std::chrono::milliseconds;
using testing::RandomBytes;
using testing::Recorder;
using testing::RunUntil;

// A socket that violates the protocol.
class Raw {
 public:
  explicit Raw(const std::string& address) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    const int one = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  }
  ~Raw() { close(fd_); }
  Raw(const Raw&) = delete;
  bool connected() const { return connected_; }
  void Send(ByteView bytes) { [[maybe_unused]] auto n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Proves the token. `loop` is the listener's, unless another thread runs it.
  Status Handshake(Loop* loop, std::string_view token = "t") {
    return testing::RawHandshake(
        fd_, token, {wire::PortKind::kServer},
        loop == nullptr ? std::function<void()>() : [loop] { loop->RunOnce(std::chrono::milliseconds(1)); });
  }
  // Makes close reset the connection.
  void Abort() {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  // True if the other end has closed it after sending at most `allowed` bytes, beyond those of a handshake.
  bool Closed(size_t allowed = 0) {
    char bytes[256];
    for (;;) {
      const ssize_t n = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) return true;
      if (n < 0) return false;
      read_ += static_cast<size_t>(n);
      EXPECT_LE(read_, allowed);
    }
  }
  size_t read() const { return read_; }

 private:
  int fd_ = -1;
  bool connected_ = false;
  size_t read_ = 0;
};

Bytes Frame(const wire::FramePrefix& prefix, ByteView header) {
  Bytes bytes(wire::FramePrefix::kBytes);
  wire::EncodePrefix(prefix, bytes.data());
  bytes.insert(bytes.end(), header.begin(), header.end());
  return bytes;
}

// Takes pushes as a server does: a header that does not decode ends the connection.
class Sessions {
 public:
  Transport::Accept Acceptor() {
    return [this](std::unique_ptr<Connection> connection) -> Receiver* {
      auto session = std::make_unique<Session>(*this);
      session->connection = std::move(connection);
      Session* raw = session.get();
      sessions_.emplace(raw, std::move(session));
      return raw;
    };
  }
  explicit Sessions(Loop& loop) : loop_(loop) {}
  size_t open() const { return sessions_.size(); }

 private:
  struct Session : Receiver {
    explicit Session(Sessions& its_owner) : owner(its_owner) {}
    Places OnHeader(Connection&, uint8_t, ByteView header, uint64_t payload_bytes) override {
      if (auto push = fields::Decode<protocol::PushRequest>(header, "push"); !push.ok()) return push.status();
      if (payload_bytes > 1 << 20) return Status(Code::kDataLoss, "too much");
      payload.resize(payload_bytes);
      return Spans{payload};
    }
    void OnMessage(Connection& connection_now) override { connection_now.Send(2, Bytes(8), {}); }
    void OnClosed(Connection&, const Status&) override {
      owner.loop_.Post([this] { owner.sessions_.erase(this); });
    }
    Sessions& owner;
    Bytes payload;
    std::unique_ptr<Connection> connection;
  };

  Loop& loop_;
  std::map<Session*, std::unique_ptr<Session>> sessions_;
};

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total = 0;
  size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class TcpTest : public ::testing::Test {
 protected:
  void Listen(TransportOptions options) {
    options.token = "t";
    options.metrics = &metrics;
    transport = MakeTcpTransport(loop, options);
    auto listening = transport->Listen("127.0.0.1:0", sessions.Acceptor());
    ASSERT_TRUE(listening.ok()) << listening.status().ToString();
    listener = std::move(*listening);
  }
  // An honest client's push is answered.
  void ExpectAlive() {
    Loop mine;
    auto outgoing = MakeTcpTransport(mine, {.token = "t"});
    Recorder recorder;
    std::unique_ptr<Connection> connection;
    outgoing->Connect(listener->address(), &recorder, std::chrono::seconds(60), [&](auto result) {
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      connection = std::move(*result);
      connection->Send(1, fields::Encode(protocol::PushRequest{}), {});
    });
    EXPECT_TRUE(RunUntil({&mine, &loop}, [&] { return recorder.messages.size() == 1; }));
  }

  metrics::Registry metrics;
  Loop loop;
  std::unique_ptr<Transport> transport;
  Sessions sessions{loop};
  std::unique_ptr<Listener> listener;
};

const Bytes kHello = wire::EncodeHello({wire::PortKind::kServer}, {});
Bytes With(const Bytes& first, const Bytes& then) {
  Bytes all = first;
  all.insert(all.end(), then.begin(), then.end());
  return all;
}

// A connection of the flood: random bytes, or a valid beginning. `*authenticated` tells whether a handshake
// precedes them.
Bytes Attack(Rng& rng, bool* authenticated) {
  const Bytes push = fields::Encode(protocol::PushRequest{});
  const uint64_t huge = ~uint64_t{0} >> rng.Below(20);
  const uint64_t kind = rng.Below(9);
  *authenticated = kind >= 5;
  switch (kind) {
    case 0:
      return {};
    case 1:
      return RandomBytes(rng.Below(200), rng());
    case 2:
      return RandomBytes(100000, rng());
    case 3:
      return Bytes(kHello.begin(), kHello.begin() + static_cast<ptrdiff_t>(rng.Below(wire::kHelloBytes)));
    case 4:
      return With(kHello, RandomBytes(rng.Below(200), rng()));
    case 5:
      return Frame({.type = 1, .header_bytes = ~0u}, {});
    case 6:
      return Frame({.type = 1, .header_bytes = 1 << 20}, RandomBytes(100, rng()));
    case 7:
      return Frame(wire::MakePrefix(1, push, huge), push);
    default: {
      const Bytes garbage = RandomBytes(rng.Below(100), rng());
      return Frame(wire::MakePrefix(1, garbage, rng.Below(1000)), garbage);
    }
  }
}

TEST_F(TcpTest, TenThousandRandomAndHalfRightConnections) {
  Listen({.handshake_timeout = milliseconds(300), .stall_timeout = milliseconds(300)});
  std::atomic<bool> done{false};
  std::thread crowd([&] {
    Rng rng(1);
    std::deque<std::unique_ptr<Raw>> lingering;  // incomplete handshakes, until others displace them
    for (int i = 0; i < 10000; ++i) {
      auto raw = std::make_unique<Raw>(listener->address());
      EXPECT_TRUE(raw->connected());
      bool authenticated = false;
      const Bytes bytes = Attack(rng, &authenticated);
      if (authenticated) (void)raw->Handshake(nullptr);
      raw->Send(bytes);
      if (rng.Chance(0.3)) raw->Abort();
      if (rng.Chance(0.5)) lingering.push_back(std::move(raw));
      if (lingering.size() > 200) lingering.pop_front();
    }
    done = true;
  });
  [[maybe_unused]] const size_t before = ResidentBytes();
  EXPECT_TRUE(RunUntil(
      loop, [&] { return done.load(); }, std::chrono::seconds(120)));
  crowd.join();
#ifndef LEAT_SANITIZED
  EXPECT_LT(ResidentBytes(), before + (8 << 20));
#endif
  EXPECT_TRUE(RunUntil(loop, [&] { return sessions.open() == 0; }));
  EXPECT_GT(metrics.counter("leat_net_connections_refused_total").value(), 2000u);
  ExpectAlive();
}

TEST_F(TcpTest, AnInvalidHelloGetsNoAnswer) {
  Listen({});
  Raw peer(listener->address());
  peer.Send(RandomBytes(wire::kHelloBytes, 1));
  ASSERT_TRUE(RunUntil(loop, [&] { return peer.Closed(0); }));
  EXPECT_EQ(sessions.open(), 0u);
}

TEST_F(TcpTest, AHelloThatTakesTooLongEnds) {
  Listen({.handshake_timeout = milliseconds(50)});
  Raw slow(listener->address());
  slow.Send(ByteView(kHello).first(20));
  const Time begin = loop.Now();
  ASSERT_TRUE(RunUntil(loop, [&] { return slow.Closed(0); }));
  EXPECT_GE(loop.Now() - begin, milliseconds(50));
}

TEST_F(TcpTest, TheOldestPendingHandshakeIsClosed) {
  Listen({.handshake_timeout = std::chrono::minutes(5), .max_pending_handshakes = 3});
  std::deque<Raw> pending;
  for (int i = 0; i < 3; ++i) pending.emplace_back(listener->address());
  for (int i = 0; i < 20; ++i) loop.RunOnce({});
  for (auto& peer : pending) EXPECT_FALSE(peer.Closed());
  pending.emplace_back(listener->address());
  ASSERT_TRUE(RunUntil(loop, [&] { return pending[0].Closed(); }));
  for (size_t i = 1; i < pending.size(); ++i) EXPECT_FALSE(pending[i].Closed()) << i;
  // Once authenticated, a peer is not displaced.
  ASSERT_TRUE(pending[1].Handshake(&loop).ok());
  ASSERT_TRUE(RunUntil(loop, [&] { return sessions.open() == 1; }));
  for (int i = 0; i < 3; ++i) pending.emplace_back(listener->address());
  ASSERT_TRUE(RunUntil(loop, [&] { return pending[3].Closed(); }));
  EXPECT_FALSE(pending[1].Closed());
}

TEST_F(TcpTest, AHeaderInDribblesEndsByTheStallTimeout) {
  Listen({.stall_timeout = milliseconds(80)});
  Raw slow(listener->address());
  const Bytes frame = Frame(wire::MakePrefix(1, Bytes(1 << 18), 0), Bytes(1 << 18));
  ASSERT_TRUE(slow.Handshake(&loop).ok());
  // Single bytes, much more often than the timeout, are not enough for a header.
  size_t sent = 0;
  Time next{};
  const Time begin = loop.Now();
  ASSERT_TRUE(RunUntil(loop, [&] {
    if (loop.Now() >= next && sent < frame.size()) {
      slow.Send(ByteView(frame).subspan(sent++, 1));
      next = loop.Now() + milliseconds(10);
    }
    return slow.Closed();
  }));
  EXPECT_GE(loop.Now() - begin, milliseconds(80));
  EXPECT_EQ(metrics.counter("leat_net_connections_stalled_total").value(), 1u);
}

TEST_F(TcpTest, AHeaderThatIsNotTheOneSentEnds) {
  Listen({});
  Raw raw(listener->address());
  const Bytes push = fields::Encode(protocol::PushRequest{});
  const wire::FramePrefix prefix = wire::MakePrefix(1, push, 0);
  Bytes flipped = push;
  flipped[0] ^= std::byte{1};  // a bit of the sequence: would decode
  ASSERT_TRUE(raw.Handshake(&loop).ok());
  raw.Send(Frame(prefix, flipped));
  ASSERT_TRUE(RunUntil(loop, [&] { return raw.Closed(); }));
}

// The congestion control of each connected socket of this process.
std::vector<std::string> CongestionControls() {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_storage peer{};
    socklen_t peer_size = sizeof(peer);
    char name[16] = {};
    socklen_t name_size = sizeof(name);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 &&
        getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &name_size) == 0) {
      found.emplace_back(name);
    }
  }
  return found;
}

TEST_F(TcpTest, NothingIsPacedOnThisHost) {
  Listen({});
  ASSERT_TRUE(CongestionControls().empty());
  Recorder recorder;
  std::unique_ptr<Connection> connection;
  transport->Connect(listener->address(), &recorder, std::chrono::seconds(60), [&](auto result) {
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    connection = std::move(*result);
  });
  ASSERT_TRUE(RunUntil(loop, [&] { return connection != nullptr; }));
  EXPECT_EQ(CongestionControls(), std::vector<std::string>(2, "reno")) << "both ends";
}

TEST_F(TcpTest, AnIdleConnectionIsLeftAlone) {
  Listen({.stall_timeout = milliseconds(20)});
  Raw quiet(listener->address());
  const Bytes push = fields::Encode(protocol::PushRequest{});
  ASSERT_TRUE(quiet.Handshake(&loop).ok());
  quiet.Send(Frame(wire::MakePrefix(1, push, 0), push));
  const Time until = loop.Now() + milliseconds(150);
  ASSERT_TRUE(RunUntil(loop, [&] { return loop.Now() > until; }));
  EXPECT_FALSE(quiet.Closed(1000));
  EXPECT_GT(quiet.read(), 0u) << "the push is answered";
}

TEST_F(TcpTest, FramesInPiecesOfEverySize) {
  Listen({});
  const Bytes push = fields::Encode(protocol::PushRequest{});
  Bytes stream;
  for (int i = 0; i < 20; ++i) {
    stream = With(stream, With(Frame(wire::MakePrefix(1, push, 50), push), Bytes(50)));
  }
  for (const size_t piece : {1, 7, 24, 25, 100, 4000}) {
    Raw raw(listener->address());
    ASSERT_TRUE(raw.Handshake(&loop).ok());
    const size_t answers = 20 * (wire::FramePrefix::kBytes + 8);
    size_t at = 0;
    ASSERT_TRUE(RunUntil(loop, [&] {
      const size_t n = std::min(piece, stream.size() - at);
      if (n > 0) raw.Send(ByteView(stream).subspan(at, n));
      at += n;
      return raw.Closed(answers) || raw.read() == answers;
    })) << piece;
  }
}

TEST_F(TcpTest, ADeafListenerIsGivenUpByTheDeadline) {
  // The kernel accepts; nobody answers.
  const int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  ASSERT_EQ(bind(deaf, reinterpret_cast<sockaddr*>(&at), size), 0);
  ASSERT_EQ(listen(deaf, 5), 0);
  getsockname(deaf, reinterpret_cast<sockaddr*>(&at), &size);
  transport = MakeTcpTransport(loop, {});
  Recorder recorder;
  std::optional<Status> told;
  transport->Connect("127.0.0.1:" + std::to_string(ntohs(at.sin_port)), &recorder, milliseconds(50),
                     [&](auto connection) { told = connection.status(); });
  ASSERT_TRUE(RunUntil(loop, [&] { return told.has_value(); }));
  EXPECT_EQ(told->code(), Code::kUnavailable);
  close(deaf);
}

TEST_F(TcpTest, NamesAreLookedUp) {
  Listen({});
  const std::string port = listener->address().substr(listener->address().rfind(':'));
  auto outgoing = MakeTcpTransport(loop, {.token = "t"});
  Recorder recorder;
  std::unique_ptr<Connection> connection;
  outgoing->Connect("localhost" + port, &recorder, std::chrono::seconds(60), [&](auto result) {
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    connection = std::move(*result);
  });
  EXPECT_TRUE(RunUntil(loop, [&] { return connection != nullptr; }));
  std::optional<Status> told;
  outgoing->Connect("no-such-host.invalid:80", &recorder, std::chrono::seconds(60),
                    [&](auto result) { told = result.status(); });
  ASSERT_TRUE(RunUntil(loop, [&] { return told.has_value(); }));
  EXPECT_NE(told->message().find("no-such-host.invalid:80"), std::string::npos) << told->message();
  outgoing->Connect("no-such-host.invalid:80", &recorder, std::chrono::seconds(60), [](auto) { FAIL(); });
  outgoing.reset();  // during the lookup: no callback
  for (int i = 0; i < 5; ++i) loop.RunOnce(milliseconds(1));
}

TEST_F(TcpTest, OutOfDescriptorsItPausesAndGoesOn) {
  Listen({});
  std::deque<Raw> waiting;
  for (int i = 0; i < 10; ++i) waiting.emplace_back(listener->address());
  // No descriptor above those open now.
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int highest = dup(0);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(highest);
  close(highest);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Time begin = loop.Now();
  for (int turn = 0; turn < 10; ++turn) loop.RunOnce(milliseconds(15));
  const Duration took = loop.Now() - begin;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(took, milliseconds(100)) << "it spins";
  for (auto& raw : waiting) (void)raw.Handshake(&loop);
  // Up to two may have been closed to make room, if a descriptor became free in between.
  EXPECT_TRUE(RunUntil(loop, [&] { return sessions.open() >= 8; }));
  ExpectAlive();
}

}  // namespace
}  // namespace leat::net
