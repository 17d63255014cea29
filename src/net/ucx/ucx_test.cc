// The negotiated path, and failures of the negotiation.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "net/fault/testing.h"
#include "net/framing.h"
#include "net/same_host/same_host_peer.h"
#include "net/same_host/shared_memory.h"
#include "net/testing.h"
#include "net/transports.h"
#include "net/ucx/ucx_endpoint.h"

namespace leat::net {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::Message;
using testing::RandomBytes;
using testing::Recorder;
using testing::RunUntil;

constexpr Duration kSoonUcx = std::chrono::seconds(60);

class UcxTest : public ::testing::Test {
 protected:
  void Connect(TransportOptions ours, TransportOptions theirs) {
    Disconnect();
    ours.metrics = &metrics;
    theirs.metrics = &its_metrics;
    transport = MakeUcxTransport(loop, ours);
    other = MakeUcxTransport(loop, theirs);
    auto listening = transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
      server = std::move(connection);
      return &at_server;
    });
    ASSERT_TRUE(listening.ok()) << listening.status().ToString();
    listener = std::move(*listening);
    other->Connect(listener->address(), &at_client, kSoonUcx, [&](auto connection) {
      ASSERT_TRUE(connection.ok()) << connection.status().ToString();
      client = std::move(*connection);
    });
    ASSERT_TRUE(RunUntil(loop, [&] { return client != nullptr && server != nullptr; }));
  }
  void Disconnect() {
    client.reset();
    server.reset();
    at_server = {};
    at_client = {};
  }
  // Sends one message each way.
  void ExpectAlive() {
    const Bytes payload = RandomBytes(100000, 1);
    at_server.on_message = [&](Connection& now) { now.Send(2, Bytes(3), {ByteView(payload)}); };
    client->Send(1, Bytes(10), {ByteView(payload)});
    ASSERT_TRUE(RunUntil(loop, [&] { return at_client.messages.size() == 1; }));
    EXPECT_TRUE(at_server.messages[0].payload == payload);
    EXPECT_TRUE(at_client.messages[0].payload == payload);
  }
  double shared() { return metrics.gauge("leat_net_ucx_connections").value(); }

  metrics::Registry metrics, its_metrics;
  Loop loop;
  Recorder at_server, at_client;
  std::unique_ptr<Transport> transport, other;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Connection> server, client;
};

TEST_F(UcxTest, NeighboursShareMemory) {
  Connect({}, {});
  EXPECT_EQ(shared(), 1);
  EXPECT_EQ(its_metrics.gauge("leat_net_ucx_connections").value(), 1);
  ExpectAlive();
  EXPECT_GT(metrics.counter("leat_net_bytes_received_total").value(), 100000u);
  client.reset();
  ASSERT_TRUE(RunUntil(loop, [&] { return at_server.closed.has_value(); }));
  EXPECT_EQ(shared(), 0);
}

// Accepts every other span in place.
class Viewer final : public Recorder {
 public:
  bool OnView(Connection&, size_t i, ByteView bytes) override {
    if (i != segments) ++violations;
    if (i % 2 == 1) return false;
    place = bytes.data();
    std::memcpy(spans[i].data(), bytes.data(), bytes.size());
    ++segments;
    ++views;
    return true;
  }
  const std::byte* place = nullptr;
  int views = 0;
};

Buffer SharedBytes(size_t size, uint64_t seed) {
  Buffer buffer = MakeSharedBuffer(size);
  const Bytes bytes = RandomBytes(size, seed);
  std::ranges::copy(bytes, buffer.data());
  return buffer;
}

TEST_F(UcxTest, SharedMemoryIsNotCopied) {
  Connect({}, {});
  Viewer viewer;
  std::unique_ptr<Connection> at_viewer, to_viewer;
  auto listening = transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
    at_viewer = std::move(connection);
    return &viewer;
  });
  other->Connect((*listening)->address(), &at_client, kSoonUcx,
                 [&](auto connection) { to_viewer = std::move(*connection); });
  ASSERT_TRUE(RunUntil(loop, [&] { return at_viewer != nullptr && to_viewer != nullptr; }));

  const Buffer a = SharedBytes(300'000, 1), b = SharedBytes(200'000, 2);
  const Bytes c = RandomBytes(100'000, 3);
  viewer.cut = [](std::span<std::byte> all) {
    return std::vector{all.first(100'000), all.subspan(100'000, 150'000), all.subspan(250'000, 0),
                       all.subspan(250'000, 100'000), all.subspan(350'000)};
  };
  std::vector<size_t> told;  // messages that the viewer had when each was done
  const auto done = [&](const Status& status) {
    EXPECT_TRUE(status.ok());
    told.push_back(viewer.messages.size());
  };
  // Shared; copied, because one part is in private memory; then more shared messages than may be
  // unacknowledged.
  to_viewer->Send(7, Bytes(10), {ByteView(a.bytes()), ByteView(b.bytes())}, done);
  to_viewer->Send(8, Bytes(11), {ByteView(a.bytes()).first(260'000), ByteView(c)}, done);
  for (int i = 0; i < 20; ++i)
    to_viewer->Send(9, Bytes(12), {ByteView(b.bytes()), ByteView(a.bytes())}, done);
  ASSERT_TRUE(RunUntil(loop, [&] { return viewer.messages.size() == 22 && told.size() == 22; }));
  EXPECT_EQ(viewer.violations, 0);
  EXPECT_GE(viewer.views, 2 + 8);
  EXPECT_NE(viewer.place, nullptr);
  Bytes both(a.bytes().begin(), a.bytes().end());
  both.insert(both.end(), b.bytes().begin(), b.bytes().end());
  EXPECT_TRUE(viewer.messages[0] == (Message{7, Bytes(10), both}));
  EXPECT_EQ(viewer.messages[1].type, 8);
  EXPECT_TRUE(std::ranges::equal(std::span(viewer.messages[1].payload).subspan(260'000), c));
  Bytes reversed(b.bytes().begin(), b.bytes().end());
  reversed.insert(reversed.end(), a.bytes().begin(), a.bytes().end());
  for (size_t i = 2; i < 22; ++i) EXPECT_TRUE(viewer.messages[i] == (Message{9, Bytes(12), reversed})) << i;
  EXPECT_GE(told.front(), 1u) << "done before the first was read";
}

TEST_F(UcxTest, SharedPayloadsAreHeldUntilReleased) {
  Connect({}, {});
  Buffer buffer = SharedBytes(1 << 20, 1);
  bool told = false;
  client->Send(1, {}, {ByteView(buffer.bytes())}, [&told, buffer](const Status&) { told = true; });
  client.reset();
  EXPECT_TRUE(buffer.shared()) << "the peer may be looking at it";
  ASSERT_TRUE(RunUntil(loop, [&] { return at_server.closed.has_value(); }));
  ASSERT_TRUE(RunUntil(loop, [&] { return !buffer.shared(); }));
  EXPECT_FALSE(told);
  ASSERT_EQ(at_server.messages.size(), 1u);
  EXPECT_TRUE(std::ranges::equal(at_server.messages[0].payload, buffer.bytes()));
}

// Holds the payloads shared with it, and reads them late.
class Holder : public Recorder {
 public:
  bool OnView(Connection& connection, size_t, ByteView bytes) override {
    if (hold) connection.HoldView();
    ++segments;
    views.push_back(bytes);
    return true;
  }
  void OnClosed(Connection& connection, const Status& why) override {
    if (before_closed) before_closed();
    Recorder::OnClosed(connection, why);
  }
  bool hold = true;
  std::vector<ByteView> views;
  std::function<void()> before_closed;
};

class HeldViewTest : public UcxTest {
 protected:
  void ConnectHolder() {
    Connect({}, {});
    listener_ = *transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
      at_holder_ = std::move(connection);
      return &holder_;
    });
    other->Connect(listener_->address(), &at_client, kSoonUcx,
                   [&](auto connection) { to_holder_ = std::move(*connection); });
    ASSERT_TRUE(RunUntil(loop, [&] { return at_holder_ != nullptr && to_holder_ != nullptr; }));
  }
  // The number of messages reported as done to their sender.
  void Show(const Buffer& buffer) {
    to_holder_->Send(1, {}, {ByteView(buffer.bytes())}, [this, buffer](const Status&) { ++told_; });
  }
  bool Seen(size_t views) {
    return RunUntil(loop, [&] { return holder_.views.size() == views; });
  }
  // True if exactly that many are reported, and no more after a while.
  bool ToldJust(int count) {
    int turns = 0;
    return RunUntil(loop, [&] { return told_ >= count && ++turns > 200; }) && told_ == count;
  }

  std::unique_ptr<Listener> listener_;
  Holder holder_;
  std::unique_ptr<Connection> at_holder_, to_holder_;
  int told_ = 0;
};

TEST_F(HeldViewTest, IsLentUntilItIsReleased) {
  ConnectHolder();
  const Buffer a = SharedBytes(300'000, 1), b = SharedBytes(200'000, 2), c = SharedBytes(100'000, 3);
  holder_.hold = false;
  Show(a);
  ASSERT_TRUE(Seen(1));
  ASSERT_TRUE(ToldJust(1));
  holder_.hold = true;
  Show(a);
  Show(b);
  ASSERT_TRUE(Seen(3));
  holder_.hold = false;
  Show(c);
  ASSERT_TRUE(Seen(4));
  ASSERT_TRUE(ToldJust(1)) << "not even the last one, which is not held";
  EXPECT_TRUE(std::ranges::equal(holder_.views[1], a.bytes()));
  EXPECT_TRUE(std::ranges::equal(holder_.views[2], b.bytes()));
  at_holder_->ReleaseViews(1);
  ASSERT_TRUE(ToldJust(2));
  EXPECT_TRUE(b.shared());
  at_holder_->ReleaseViews(5);
  ASSERT_TRUE(ToldJust(4)) << "with those that only had to wait";
  EXPECT_FALSE(b.shared());
}

// The sender has its own loop, as another process does.
TEST(HeldView, IsReadableUntilTheReceiverKnowsOfTheEnd) {
  for (const bool closes : {true, false}) {
    Loop loop, its_loop;
    const auto transport = MakeUcxTransport(loop, {}), its_transport = MakeUcxTransport(its_loop, {});
    const auto run = [&](const auto& condition) {
      return RunUntil(loop, [&] {
        its_loop.RunOnce(Duration::zero());
        return condition();
      });
    };
    Holder holder;
    Recorder sender;
    std::unique_ptr<Connection> at_holder, to_holder;
    const auto listener = *transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
      at_holder = std::move(connection);
      return &holder;
    });
    its_transport->Connect(listener->address(), &sender, kSoonUcx,
                           [&](auto connection) { to_holder = std::move(*connection); });
    ASSERT_TRUE(run([&] { return at_holder != nullptr && to_holder != nullptr; }));
    const Buffer buffer = SharedBytes(300'000, 1);
    to_holder->Send(1, {}, {ByteView(buffer.bytes())}, [buffer](const Status&) {});
    ASSERT_TRUE(run([&] { return !holder.views.empty(); }));
    bool looked = false;
    holder.before_closed = [&] {
      for (int turn = 0; turn < 50; ++turn) its_loop.RunOnce(std::chrono::milliseconds(1));
      EXPECT_TRUE(buffer.shared()) << "let go before the receiver knew";
      EXPECT_TRUE(std::ranges::equal(holder.views[0], buffer.bytes()));
      looked = true;
    };
    if (closes) {
      to_holder->Close({Code::kAborted, "enough"});
    } else {
      to_holder.reset();
    }
    ASSERT_TRUE(run([&] { return !buffer.shared(); }));
    EXPECT_TRUE(looked);
  }
}

TEST_F(UcxTest, BothMayLeaveAtOnce) {
  Connect({}, {});
  Buffer mine = SharedBytes(1 << 20, 1), others = SharedBytes(1 << 20, 2);
  client->Send(1, {}, {ByteView(mine.bytes())}, [mine](const Status&) {});
  server->Send(1, {}, {ByteView(others.bytes())}, [others](const Status&) {});
  client.reset();
  server.reset();
  EXPECT_TRUE(RunUntil(loop, [&] { return !mine.shared() && !others.shared(); }));
}

TEST_F(HeldViewTest, IsReadableAfterTheSendersTransportIsDestroyed) {
  ConnectHolder();
  Buffer buffer = SharedBytes(300'000, 1);
  const Bytes expected(buffer.bytes().begin(), buffer.bytes().end());
  Show(buffer);
  ASSERT_TRUE(Seen(1));
  to_holder_.reset();
  client.reset();
  other.reset();
  EXPECT_TRUE(buffer.shared());
  buffer = {};
  bool looked = false;
  holder_.before_closed = [&] {
    EXPECT_TRUE(std::ranges::equal(holder_.views[0], expected));
    looked = true;
  };
  EXPECT_TRUE(RunUntil(loop, [&] { return looked; }));
  EXPECT_EQ(told_, 0);
}

TEST_F(UcxTest, ATransportLingersUntilItsPeersHaveReleasedSharedMemory) {
  Connect({}, {});
  const Buffer buffer = SharedBytes(1 << 20, 1);
  client->Send(1, {}, {ByteView(buffer.bytes())}, [buffer](const Status&) {});
  EXPECT_EQ(other->lingering(), 0u);
  client.reset();
  EXPECT_EQ(other->lingering(), 1u);
  EXPECT_FALSE(Linger(loop, *other, Duration::zero()));
  loop.Stop();
  EXPECT_TRUE(Linger(loop, *other, kSoonUcx));
  EXPECT_FALSE(buffer.shared());
  EXPECT_EQ(at_server.messages.size(), 1u);
}

// The peer's description of its memory is verified.
TEST_F(UcxTest, AnInvalidRegionEndsTheConnection) {
  const Buffer buffer = SharedBytes(100'000, 1);
  const ByteView payload(buffer.bytes());
  const Bytes good = *EncodeSharedPayload(1, Bytes(4), std::array{payload});
  ByteWriter unsealed;  // a file that could shrink
  const int fd = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 100'000), 0);
  struct stat at {};
  fstat(fd, &at);
  unsealed.PutRaw(ByteView(good).first(13));
  unsealed.Put(static_cast<int32_t>(fd));
  unsealed.Put(static_cast<uint64_t>(at.st_dev));
  unsealed.Put(static_cast<uint64_t>(at.st_ino));
  unsealed.Put(uint64_t{0});
  unsealed.Put(uint64_t{100'000});
  std::vector<Bytes> bad{unsealed.Take()};
  // type own_bytes own count | descriptor device inode offset bytes
  for (const size_t i : {0, 1, 9, 13, 17, 25, 39, 46}) {
    bad.push_back(good);
    bad.back()[i] = static_cast<std::byte>(i == 0 ? 255 : static_cast<int>(good[i]) + 64);
  }
  for (size_t size = 0; size < good.size(); size += 5) bad.emplace_back(good.begin(), good.begin() + size);
  for (const Bytes& header : bad) {
    Connect({}, {});
    client->Send(kSharedPayloadType, header, {});
    ASSERT_TRUE(RunUntil(loop, [&] { return at_server.closed.has_value(); }));
    EXPECT_EQ(at_server.closed->code(), Code::kDataLoss) << at_server.closed->ToString();
    EXPECT_TRUE(at_server.messages.empty());
  }
  close(fd);
}

TEST_F(UcxTest, EitherEndMayKeepItOnTheSocket) {
  for (const bool ours : {true, false}) {
    Connect({.shared_memory = ours}, {.shared_memory = !ours});
    EXPECT_EQ(shared(), 0);
    ExpectAlive();
  }
}

TEST_F(UcxTest, OverANetworkOnlyWhereBothTrustIt) {
  for (const bool both : {true, false}) {
    const TransportOptions options{
        .shared_memory = false, .trusted_network = true, .network_transports = "tcp"};
    Connect(options, {.shared_memory = false, .trusted_network = both, .network_transports = "tcp"});
    EXPECT_EQ(shared(), both ? 1 : 0);
    ExpectAlive();
  }
}

// The listener learns only later that the network is trusted.
TEST_F(UcxTest, TrustMayComeAfterListening) {
  for (const bool both : {true, false}) {
    Disconnect();
    const TransportOptions options{.shared_memory = false, .network_transports = "tcp"};
    transport = MakeUcxTransport(loop, options);
    metrics::Registry counts;
    auto its_options = options;
    its_options.metrics = &counts;
    other = MakeFaultTransport(loop, MakeUcxTransport(loop, its_options), std::make_shared<Faults>());
    listener = *transport->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
      server = std::move(connection);
      return &at_server;
    });
    transport->TrustNetwork(true);
    other->TrustNetwork(both);
    other->Connect(listener->address(), &at_client, kSoonUcx,
                   [&](auto connection) { client = std::move(*connection); });
    ASSERT_TRUE(RunUntil(loop, [&] { return client != nullptr && server != nullptr; }));
    EXPECT_EQ(counts.gauge("leat_net_ucx_connections").value(), both ? 1 : 0);
    ExpectAlive();
    client.reset();
    other.reset();
  }
}

TEST_F(UcxTest, AnIdleConnectionCostsNothing) {
  Connect({}, {});
  ExpectAlive();
  const auto cpu = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto before = cpu();
  const Time until = loop.Now() + milliseconds(500);
  while (loop.Now() < until) loop.RunOnce(until - loop.Now());
  EXPECT_LT(cpu() - before, milliseconds(50)) << "of 500: it polls instead of sleeping";
}

TEST_F(UcxTest, ManyConnectionsLeaveNothing) {
  Connect({}, {});
  const auto descriptors = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
  };
  const auto before = descriptors();
  for (int i = 0; i < 100; ++i) {
    client.reset();
    at_client = {};
    ASSERT_TRUE(RunUntil(loop, [&] { return at_server.closed.has_value(); }));
    at_server = {};
    server.reset();
    other->Connect(listener->address(), &at_client, kSoonUcx,
                   [&](auto connection) { client = std::move(*connection); });
    ASSERT_TRUE(RunUntil(loop, [&] { return client != nullptr && server != nullptr; }));
    EXPECT_EQ(shared(), 1);
    if (i % 10 == 0) ExpectAlive();
  }
  EXPECT_EQ(descriptors(), before);
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    const std::string mine = "leat-ucx-" + std::to_string(getpid());
    EXPECT_NE(entry.path().filename().string().substr(0, mine.size()), mine);
  }
}

// Each end sleeps, or is about to, when the other's message arrives. A lost wakeup costs a full wait, which
// is longer than any reply takes on a busy machine.
TEST(UcxWakeUp, NoMessageIsMissedWhileAsleep) {
  constexpr Duration kWait = std::chrono::seconds(20);
  for (const bool network : {false, true}) {
    metrics::Registry metrics;
    const TransportOptions options{.shared_memory = !network,
                                   .trusted_network = network,
                                   .network_transports = "tcp",
                                   .metrics = &metrics};
    Loop here, there;
    const auto theirs = MakeUcxTransport(there, options);
    Recorder mirror;
    std::unique_ptr<Connection> server, client;
    Bytes payload(1 << 19);
    mirror.on_message = [&](Connection& now) {
      now.Send(2, {}, {ByteView(payload).first(mirror.messages.back().payload.size())});
      mirror.messages.clear();
    };
    const auto listener = *theirs->Listen("127.0.0.1:0", [&](std::unique_ptr<Connection> connection) {
      server = std::move(connection);
      return &mirror;
    });
    std::thread thread([&] {
      while (there.RunOnce(kWait)) {
      }
    });
    const auto ours = MakeUcxTransport(here, options);
    Recorder recorder;
    ours->Connect(listener->address(), &recorder, kSoonUcx,
                  [&](auto connection) { client = std::move(*connection); });
    while (client == nullptr) here.RunOnce(kWait);
    EXPECT_GE(metrics.gauge("leat_net_ucx_connections").value(), 1);
    Rng rng(1);
    for (int i = 0; i < 500; ++i) {
      const Time pause = here.Now() + std::chrono::microseconds(rng.Below(150));
      while (here.Now() < pause) {
      }
      client->Send(1, {}, {ByteView(payload).first(rng.Chance(0.1) ? payload.size() : rng.Below(100))});
      const Time begin = here.Now();
      while (recorder.messages.empty()) here.RunOnce(kWait);
      recorder.messages.clear();
      ASSERT_LT(here.Now() - begin, kWait) << i;
    }
    client.reset();
    there.Post([&] {
      server.reset();
      there.Stop();
    });
    thread.join();
  }
}

// A peer with the token that sends an unexpected message.
TEST_F(UcxTest, AnInvalidNegotiationEndsTheConnection) {
  Connect({.handshake_timeout = std::chrono::seconds(1)}, {});
  const auto sockets = MakeTcpTransport(loop, {});
  // The description of a secret that does not exist.
  ByteWriter offer;
  offer.Put(uint8_t{1});
  offer.Put(uint8_t{0});
  SameHostProof().Describe(offer);
  const std::vector<std::pair<uint8_t, Bytes>> attempts = {
      {0, {}},           {1, {}},         {1, Bytes(7)},    {1, RandomBytes(1000, 1)},
      {2, offer.Take()}, {3, Bytes(100)}, {200, Bytes(16)},
  };
  const Bytes payload(10);
  for (size_t i = 0; i <= attempts.size(); ++i) {
    Recorder unexpected_peer;
    std::unique_ptr<Connection> connection;
    sockets->Connect(listener->address(), &unexpected_peer, kSoonUcx,
                     [&](auto connected) { connection = std::move(*connected); });
    ASSERT_TRUE(RunUntil(loop, [&] { return connection != nullptr; }));
    // The last one sends nothing at all.
    if (i < attempts.size()) connection->Send(attempts[i].first, attempts[i].second, {});
    ASSERT_TRUE(RunUntil(loop, [&] { return unexpected_peer.closed.has_value(); })) << i;
    EXPECT_TRUE(unexpected_peer.messages.empty()) << i;
  }
  ExpectAlive();
}

TEST_F(UcxTest, UnreachablePeersStayOnTheSocket) {
  Connect({}, {});
  const auto sockets = MakeTcpTransport(loop, {});
  ByteWriter offer;
  offer.Put(uint8_t{1});
  offer.Put(uint8_t{0});
  SameHostProof().Describe(offer);  // gone before it is opened
  Recorder far;
  std::unique_ptr<Connection> connection;
  server.reset();
  at_server = {};
  sockets->Connect(listener->address(), &far, kSoonUcx,
                   [&](auto connected) { connection = std::move(*connected); });
  ASSERT_TRUE(RunUntil(loop, [&] { return connection != nullptr; }));
  connection->Send(1, offer.Take(), {});
  ASSERT_TRUE(RunUntil(loop, [&] { return far.messages.size() == 1 && server != nullptr; }));
  EXPECT_EQ(far.messages[0].header, Bytes(1)) << "by the socket";
  at_server.on_message = [](Connection& now) { now.Send(2, Bytes(1), {}); };
  connection->Send(1, Bytes(1), {});
  ASSERT_TRUE(RunUntil(loop, [&] { return far.messages.size() == 2; }));
}

// A peer that returns a wrong secret is rejected.
TEST_F(UcxTest, AWrongSecretEndsIt) {
  Connect({}, {});
  const auto sockets = MakeTcpTransport(loop, {});
  const SameHostProof same_host_proof;
  ByteWriter offer;
  offer.Put(uint8_t{1});
  offer.Put(uint8_t{0});
  same_host_proof.Describe(offer);
  Recorder liar;
  std::unique_ptr<Connection> connection;
  sockets->Connect(listener->address(), &liar, kSoonUcx,
                   [&](auto connected) { connection = std::move(*connected); });
  ASSERT_TRUE(RunUntil(loop, [&] { return connection != nullptr; }));
  connection->Send(1, offer.Take(), {});
  ASSERT_TRUE(RunUntil(loop, [&] { return liar.messages.size() == 1; }));
  ByteReader answer(liar.messages[0].header);
  ASSERT_EQ(answer.Get<uint8_t>(), 1) << "shared memory";
  Secret told;
  const ByteView bytes = answer.GetRaw(told.size());
  std::copy(bytes.begin(), bytes.end(), told.begin());
  EXPECT_TRUE(same_host_proof.Is(told));
  ByteWriter commit;
  commit.Put(uint8_t{1});
  commit.PutRaw(Secret{});
  commit.PutString("an address that must not be looked at");
  connection->Send(3, commit.Take(), {});
  ASSERT_TRUE(RunUntil(loop, [&] { return liar.closed.has_value(); }));
  ExpectAlive();
}

TEST(SameHostPeer, FindsOnlyWhatWasHidden) {
  const SameHostProof same_host_proof;
  const auto find = [](const ByteWriter& description) {
    ByteReader in(description.view());
    return FindSameHostPeer(in);
  };
  ByteWriter right;
  same_host_proof.Describe(right);
  const auto secret = find(right);
  ASSERT_TRUE(secret.has_value());
  EXPECT_TRUE(same_host_proof.Is(secret->secret));
  EXPECT_FALSE(SameHostProof().Is(secret->secret));

  // Every field matters.
  const size_t fields = right.size() - 24;  // after the boot id
  for (const size_t at : {size_t{5}, fields, fields + 4, fields + 8, fields + 16}) {
    Bytes wrong(right.view().begin(), right.view().end());
    wrong[at] ^= std::byte{1};
    ByteReader in(wrong);
    const auto found = FindSameHostPeer(in);
    EXPECT_FALSE(found.has_value() && same_host_proof.Is(found->secret)) << at;
  }
  for (size_t size = 0; size < right.size(); ++size) {
    ByteReader in(right.view().first(size));
    EXPECT_FALSE(FindSameHostPeer(in).has_value()) << size;
  }

  // Other files, correctly described: not opened, or not read.
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Descriptor out(ends[0]), in(ends[1]), large(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(large.get(), sizeof(Secret) + 1), 0);
  for (const int other : {out.get(), large.get()}) {
    struct stat at {};
    fstat(other, &at);
    ByteWriter description;
    description.PutRaw(right.view().first(fields));
    description.Put(static_cast<int32_t>(getpid()));
    description.Put(static_cast<int32_t>(other));
    description.Put(static_cast<uint64_t>(at.st_dev));
    description.Put(static_cast<uint64_t>(at.st_ino));
    EXPECT_FALSE(find(description).has_value());
  }
}

// The description of another process's secret, which is or is not in its own network namespace; empty if the
// system forbids that.
Bytes DescribedByAnother(bool apart, const std::function<void(const Bytes&)>& look) {
  int told[2], over[2];
  if (pipe(told) != 0 || pipe(over) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    close(told[0]);
    close(over[1]);
    if (apart && unshare(CLONE_NEWNET) != 0) _exit(0);
    const SameHostProof same_host_proof;
    ByteWriter description;
    same_host_proof.Describe(description);
    const bool written = write(told[1], description.view().data(), description.size()) ==
                         static_cast<ssize_t>(description.size());
    close(told[1]);
    char end;
    _exit(written && read(over[0], &end, 1) == 0 ? 0 : 1);
  }
  close(told[1]);
  close(over[0]);
  const Descriptor in(told[0]);
  Bytes description(256);
  description.resize(
      static_cast<size_t>(std::max<ssize_t>(0, read(in.get(), description.data(), description.size()))));
  look(description);
  close(over[1]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return description;
}

TEST(SameHostPeer, IsInTheSameNetworkNamespace) {
  const auto find = [](const Bytes& description) {
    ByteReader in(description);
    return FindSameHostPeer(in).has_value();
  };
  bool found = false;
  DescribedByAnother(false, [&](const Bytes& description) { found = find(description); });
  EXPECT_TRUE(found);
  const Bytes apart = DescribedByAnother(true, [&](const Bytes& description) { found = find(description); });
  if (apart.empty()) GTEST_SKIP() << "needs the right to make a network namespace";
  EXPECT_FALSE(found);
}

// The other thread acts as another process does: it removes unlocked folders.
TEST(UcxFolders, AFolderThatIsFoundBeforeItIsLockedIsMadeAgain) {
  class Nothing final : public UcxEndpoint::Handler {
   public:
    void OnFragment(ByteView) override {}
    void OnTaken(uint32_t, uint32_t) override {}
  } nothing;
  const auto context = UcxContext::ForHost(false);
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  std::atomic<bool> over{false};
  const std::string mine = "leat-ucx-" + std::to_string(getpid());
  std::thread remover([&] {
    std::string path;  // every endpoint of the context has its folder there
    std::error_code ignored;
    while (!over) {
      if (path.empty()) {
        for (const auto& entry : fs::directory_iterator("/dev/shm", ignored)) {
          if (entry.path().filename().string().starts_with(mine)) path = entry.path();
        }
      }
      const Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      // Without links, the path already belongs to another folder.
      struct stat at {};
      if (folder.ok() && flock(folder.get(), LOCK_EX | LOCK_NB) == 0 && fstat(folder.get(), &at) == 0 &&
          at.st_nlink > 0) {
        fs::remove_all(path, ignored);
      }
    }
  });
  for (int i = 0; i < 300; ++i) {
    const auto endpoint = UcxEndpoint::Make(*context, &nothing);
    EXPECT_TRUE(endpoint.ok()) << i << ": " << endpoint.status().ToString();
  }
  over = true;
  remover.join();
}

TEST(UcxFolders, WhatTheDeadLeftIsRemovedAndNothingElse) {
  const std::string begin = "/dev/shm/leat-ucx-test-" + std::to_string(getpid());
  const std::string left = begin + "-left", used = begin + "-used";
  ASSERT_TRUE(fs::create_directory(left));
  ASSERT_TRUE(fs::create_directory(used));
  std::ofstream(left + "/segment") << "bytes";
  const int lock = open(used.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  const auto context = UcxContext::ForHost(false);
  ASSERT_TRUE(context.ok()) << context.status().ToString();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(used));
  fs::remove(used);
  close(lock);
}

}  // namespace
}  // namespace leat::net
