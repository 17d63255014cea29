// Connections whose sides differ in certificates, or in the use of TLS.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "net/address.h"
#include "net/handshake/handshake.h"
#include "net/security/openssl.h"
#include "net/testing.h"
#include "net/tls/testing.h"

namespace leat::net {
namespace {

using testing::BareListener;
using testing::ConnectTo;
using testing::RandomBytes;
using testing::RunUntil;
using testing::TestAuthority;

constexpr Duration kSoonTls = std::chrono::seconds(60);

class TlsHandshakeTest : public ::testing::Test {
 protected:
  TlsHandshakeTest() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(log);
    previous = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", std::move(sink)));
    spdlog::set_pattern("%v");
  }
  ~TlsHandshakeTest() override { spdlog::set_default_logger(previous); }

  std::shared_ptr<TransportContext> Context(std::shared_ptr<TlsIdentity> tls, wire::PortKind port_kind,
                                            std::string token = "t") {
    TransportOptions options{.token = std::move(token), .port = {port_kind}};
    options.tls = std::move(tls);
    options.handshake_timeout = kSoonTls;
    return std::make_shared<TransportContext>(loop, options);
  }
  void Listen(std::shared_ptr<TlsIdentity> tls, wire::PortKind port_kind = wire::PortKind::kServer) {
    listens = Context(std::move(tls), port_kind);
    auto listening = ListenAuthenticated(
        listens, "127.0.0.1:0", [this](AuthenticatedSocket socket) { accepted.emplace(std::move(socket)); });
    ASSERT_TRUE(listening.ok()) << listening.status().ToString();
    listener = std::move(*listening);
  }
  // The outcome at the connecting side.
  Status Connect(std::shared_ptr<TlsIdentity> tls, wire::PortKind port_kind = wire::PortKind::kServer,
                 std::string token = "t") {
    std::optional<Result<AuthenticatedSocket>> outcome;
    accepted.reset();
    const uint64_t refused = listens->refused.value();
    const auto dial =
        ConnectAuthenticated(Context(std::move(tls), port_kind, std::move(token)), listener->address(),
                             kSoonTls, [&](auto result) { outcome.emplace(std::move(result)); });
    EXPECT_TRUE(RunUntil(loop, [&] {
      return outcome.has_value() &&
             (outcome->ok() ? accepted.has_value() : listens->refused.value() > refused);
    }));
    if (outcome->ok()) connected.emplace(std::move(**outcome));
    return outcome->ok() ? Status() : outcome->status();
  }
  // The line of the listener's log since the last call, after the peer's address; exactly one.
  std::string Line() {
    const std::string text = log.str();
    log.str("");
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    EXPECT_TRUE(text.starts_with(listener->address() + " refused 127.0.0.1:")) << text;
    const size_t at = text.find(": ");
    return at == std::string::npos ? text : text.substr(at + 2, text.size() - at - 3);
  }
  std::string Prefix() const { return "cannot connect to " + listener->address() + ": "; }

  std::ostringstream log;
  std::shared_ptr<spdlog::logger> previous;
  Loop loop;
  TestAuthority authority;
  std::shared_ptr<TransportContext> listens;
  std::unique_ptr<Listener> listener;
  std::optional<AuthenticatedSocket> accepted, connected;
};

TEST_F(TlsHandshakeTest, BothSidesWithCertificatesAndTheToken) {
  Listen(authority.Identity({"server"}));
  ASSERT_TRUE(Connect(authority.Identity({"worker"})).ok());
  EXPECT_EQ(accepted->tls->peer_roles(), CertificateRoles({CertificateRole::kWorker}));
  EXPECT_EQ(connected->tls->peer_roles(), CertificateRoles({CertificateRole::kServer}));
  EXPECT_EQ(accepted->tls->ExportedSecret(), connected->tls->ExportedSecret());
  EXPECT_EQ(log.str(), "");
}

TEST_F(TlsHandshakeTest, TheTokenIsStillRequired) {
  Listen(authority.Identity({"server"}));
  const Status status = Connect(authority.Identity({"worker"}), wire::PortKind::kServer, "other");
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
}

TEST_F(TlsHandshakeTest, EachRefusalIsOneLineAndTheListenerGoesOn) {
  const auto worker = authority.Identity({"worker"});
  const auto ps = authority.Identity({"server"});
  TestAuthority other;
  Listen(ps);
  EXPECT_EQ(Connect(nullptr).message(), Prefix() + "the peer requires TLS; start this side with --security");
  EXPECT_EQ(Line(), "the peer does not use TLS, which this port requires");
  EXPECT_EQ(Connect(authority.Identity({"feed"})).message(),
            Prefix() + "the peer refuses this side's TLS: unsupported certificate");
  EXPECT_EQ(Line(), "the peer's certificate is for the role feed, here it must be for server, worker, serve");
  EXPECT_FALSE(Connect(other.Identity({"worker"})).ok());
  EXPECT_EQ(Line(), "the peer refuses this side's TLS: unknown CA");
  EXPECT_TRUE(Connect(worker).ok());
  // A worker that listens in the place of a server.
  Listen(worker);
  EXPECT_EQ(Connect(worker).message(),
            Prefix() + "the peer's certificate is for the role worker, here it must be for server");
  EXPECT_EQ(Line(), "the peer refuses this side's TLS: unsupported certificate");
  // A listener without TLS.
  Listen(nullptr);
  EXPECT_EQ(Connect(worker).message(), Prefix() + "the peer does not use TLS");
  EXPECT_EQ(Line(), "the peer uses TLS, this role does not");
  EXPECT_TRUE(Connect(nullptr).ok());
}

// The table of docs/security.md.
TEST_F(TlsHandshakeTest, EachPortBelongsToItsRolesAndAdmitsItsPeers) {
  const std::vector<std::string> roles{"coordinator", "server", "worker", "bots", "admin",
                                       "observer",    "feed",   "serve",  "pool", "agent"};
  struct Port {
    wire::PortKind kind;
    std::vector<std::string> listen, connect;
  };
  const Port ports[] = {
      {wire::PortKind::kControl, {"coordinator"}, roles},
      {wire::PortKind::kServer, {"server"}, {"worker", "server", "serve"}},
      {wire::PortKind::kMember, {"worker"}, {"worker", "serve"}},
      {wire::PortKind::kTransfer, {"coordinator"}, {"server", "worker", "coordinator"}},
      {wire::PortKind::kFeed, {"feed", "coordinator"}, {"coordinator", "server", "worker", "bots", "serve"}},
      {wire::PortKind::kPool, {"pool"}, {"agent", "admin", "observer"}},
  };
  std::map<std::string, std::shared_ptr<TlsIdentity>> identities;
  for (const std::string& role : roles) identities[role] = authority.Identity({role});
  const auto has = [](const std::vector<std::string>& some, const std::string& role) {
    return std::ranges::find(some, role) != some.end();
  };
  for (const Port& port : ports) {
    for (const std::string& role : roles) {
      Listen(identities[role], port.kind);
      EXPECT_EQ(Connect(identities[port.connect.front()], port.kind).ok(), has(port.listen, role))
          << role << " listens at port " << static_cast<uint32_t>(port.kind);
    }
    Listen(identities[port.listen.front()], port.kind);
    for (const std::string& role : roles) {
      EXPECT_EQ(Connect(identities[role], port.kind).ok(), has(port.connect, role))
          << role << " connects to port " << static_cast<uint32_t>(port.kind);
    }
  }
}

TEST_F(TlsHandshakeTest, ACoordinatorIsCheckedByItsAddress) {
  const auto worker = authority.Identity({"worker"});
  Listen(authority.Identity({"coordinator"}), wire::PortKind::kControl);
  EXPECT_TRUE(Connect(worker, wire::PortKind::kControl).ok());
  Listen(authority.Identity({"coordinator"}, {"10.0.0.5", "localhost.cluster"}), wire::PortKind::kControl);
  EXPECT_EQ(Connect(worker, wire::PortKind::kControl).message(),
            Prefix() + "the peer's certificate is not for the host 127.0.0.1");
  // A server's address comes from the coordinator, so its certificate needs no host.
  Listen(authority.Identity({"server"}, {}));
  EXPECT_TRUE(Connect(worker).ok());
}

// A man in the middle with certificates of both roles, but without the token, between two sides that have it.
TEST_F(TlsHandshakeTest, AProofCannotBeForwardedToAnotherSession) {
  const auto both = authority.Identity({"server", "worker"});
  Listen(authority.Identity({"server"}));
  BareListener between;
  std::optional<Result<AuthenticatedSocket>> outcome;
  const auto dial =
      ConnectAuthenticated(Context(authority.Identity({"worker"}), wire::PortKind::kServer),
                           between.address(), kSoonTls, [&](auto result) { outcome = std::move(result); });
  for (int i = 0; i < 10; ++i) loop.RunOnce({});
  const Descriptor to_caller = between.Accept(), to_listener(ConnectTo(listener->address()));
  const auto buffers = std::make_shared<TlsBuffers>();
  const auto caller = both->Begin(
      to_caller.get(), {.side = wire::Side::kAccepts, .peer_roles = {CertificateRole::kWorker}}, buffers);
  const auto listening = both->Begin(
      to_listener.get(), {.side = wire::Side::kConnects, .peer_roles = {CertificateRole::kServer}}, buffers);
  const auto forward = [](TlsSession& from, TlsSession& to) {
    Bytes bytes(1000);
    const iovec room{bytes.data(), bytes.size()};
    const auto got = from.Read({&room, 1});
    if (!got.ok() || *got == 0) return;
    const iovec piece{bytes.data(), *got};
    bool moved = false;
    EXPECT_TRUE(to.Write({&piece, 1}, &moved).ok());
  };
  ASSERT_TRUE(RunUntil(loop, [&] {
    for (TlsSession* session : {caller.get(), listening.get()}) {
      if (!session->established() && !session->Handshake().ok()) return true;
    }
    if (caller->established() && listening->established()) {
      forward(*caller, *listening);
      forward(*listening, *caller);
    }
    return outcome.has_value();
  }));
  ASSERT_TRUE(outcome.has_value() && !outcome->ok());
  EXPECT_EQ(outcome->status().code(), Code::kPermissionDenied) << outcome->status().ToString();
}

TEST_F(TlsHandshakeTest, PeersWithoutACertificateOrWithAnOldTlsAreRefused) {
  Listen(authority.Identity({"server"}));
  const auto refused = [&](const std::function<void(SSL_CTX*)>& configure) {
    const openssl::Context context(SSL_CTX_new(TLS_client_method()));
    configure(context.get());
    const Descriptor peer(ConnectTo(listener->address()));
    fcntl(peer.get(), F_SETFL, O_NONBLOCK);
    const std::unique_ptr<SSL, openssl::Freer<SSL_free>> ssl(SSL_new(context.get()));
    SSL_set_fd(ssl.get(), peer.get());
    const uint64_t before = listens->refused.value();
    EXPECT_TRUE(RunUntil(loop, [&] {
      const std::array<char, wire::kHelloBytes> no_hello{};
      if (SSL_connect(ssl.get()) == 1) SSL_write(ssl.get(), no_hello.data(), no_hello.size());
      return listens->refused.value() > before;
    }));
    return Line();
  };
  EXPECT_EQ(refused([](SSL_CTX*) {}), "TLS: peer did not return a certificate");
  EXPECT_EQ(refused([](SSL_CTX* to) { SSL_CTX_set_max_proto_version(to, TLS1_2_VERSION); }),
            "TLS: unsupported protocol");
}

TEST_F(TlsHandshakeTest, OtherBytesAreRefusedAndTheListenerGoesOn) {
  Listen(authority.Identity({"server"}));
  const auto at = Resolve(listener->address())->front();
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Bytes bytes = RandomBytes(1 + seed * 5, seed);
    if (seed % 2 == 0) bytes[0] = std::byte{0x16};
    const uint64_t refused = listens->refused.value();
    const Descriptor peer(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(peer.get(), at.get(), at.size), 0);
    (void)send(peer.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    ASSERT_EQ(shutdown(peer.get(), SHUT_WR), 0);
    ASSERT_TRUE(RunUntil(loop, [&] { return listens->refused.value() == refused + 1; })) << seed;
  }
  EXPECT_TRUE(Connect(authority.Identity({"worker"})).ok());
}

}  // namespace
}  // namespace leat::net
