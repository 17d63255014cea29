#include "net/tls/tls_identity.h"

#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "net/same_host/same_host_peer.h"
#include "net/testing.h"
#include "net/tls/testing.h"

namespace leat::net {
namespace {

namespace fs = std::filesystem;
using testing::RandomBytes;
using testing::TestAuthority;

constexpr size_t kPiece = 100'000;

class TlsSessionTest : public ::testing::Test {
 protected:
  struct End {
    Descriptor socket;
    std::unique_ptr<TlsSession> session;
    std::optional<Status> refused;
  };

  void MakeSockets() {
    int fds[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    client.socket = Descriptor(fds[0]);
    server.socket = Descriptor(fds[1]);
    client.refused.reset();
    server.refused.reset();
  }
  // `expected`: the role that each side wants of the other.
  void Begin(TlsIdentity& at_client, TlsIdentity& at_server, CertificateRole of_server,
             CertificateRole of_client, const std::string& host = "", uint64_t rekey_bytes = 1 << 30) {
    MakeSockets();
    client.session = at_client.Begin(client.socket.get(),
                                     {.side = wire::Side::kConnects,
                                      .peer_roles = {of_server},
                                      .peer_host = host,
                                      .rekey_bytes = rekey_bytes},
                                     buffers);
    server.session = at_server.Begin(server.socket.get(),
                                     {.side = wire::Side::kAccepts,
                                      .peer_roles = {of_client},
                                      .peer_host = {},
                                      .rekey_bytes = rekey_bytes},
                                     buffers);
  }
  // Continues until both sides are through or have refused.
  void ShakeHands() {
    for (int i = 0; i < 10; ++i) {
      for (End* end : {&client, &server}) {
        if (end->refused) continue;
        if (!end->session->established()) {
          const auto complete = end->session->Handshake();
          if (!complete.ok()) end->refused = complete.status();
        } else if (const auto got = Read(*end, 1); !got.ok()) {  // the other side may refuse afterwards
          end->refused = got.status();
        }
      }
    }
  }
  Result<Bytes> Read(End& end, size_t most) {
    Bytes bytes(most);
    const iovec piece{bytes.data(), most};
    LEAT_ASSIGN_OR_RETURN(const size_t got, end.session->Read({&piece, 1}));
    bytes.resize(got);
    return bytes;
  }
  // Sends from one end to the other, which reads pieces of `read` bytes, as soon as or long after they come.
  void Transfer(End& from, End& to, const Bytes& sent, size_t read, bool late) {
    Bytes received;
    size_t at = 0;
    while (received.size() < sent.size()) {
      const size_t half = (sent.size() - at) / 2;
      iovec pieces[2] = {{const_cast<std::byte*>(sent.data()) + at, half},
                         {const_cast<std::byte*>(sent.data()) + at + half, sent.size() - at - half}};
      bool moved = false;
      size_t written = 0;
      if (at < sent.size()) {
        const auto result = from.session->Write(pieces, &moved);
        ASSERT_TRUE(result.ok()) << result.status().ToString();
        written = *result;
        at += written;
      }
      if (late && (moved || written > 0)) continue;
      const auto got = Read(to, read);
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      received.insert(received.end(), got->begin(), got->end());
    }
    EXPECT_EQ(received, sent);
    EXPECT_FALSE(to.session->readable());
  }

  TestAuthority authority;
  std::shared_ptr<TlsBuffers> buffers = std::make_shared<TlsBuffers>();
  End client, server;
};

TEST_F(TlsSessionTest, BytesArriveBothWays) {
  const auto worker = authority.Identity({"worker"});
  const auto ps = authority.Identity({"server"});
  Begin(*worker, *ps, CertificateRole::kServer, CertificateRole::kWorker);
  ShakeHands();
  ASSERT_TRUE(client.session->established() && server.session->established());
  EXPECT_FALSE(client.refused || server.refused);
  EXPECT_EQ(client.session->peer_roles(), CertificateRoles({CertificateRole::kServer}));
  EXPECT_EQ(server.session->peer_roles(), CertificateRoles({CertificateRole::kWorker}));
  EXPECT_EQ(client.session->ExportedSecret(), server.session->ExportedSecret());
  for (const bool late : {false, true}) {
    for (const size_t size : {size_t{1}, size_t{100}, size_t{16'384}, size_t{16'385}, size_t{3'000'000}}) {
      for (const size_t read : {size > kPiece ? kPiece : size_t{1}, size_t{20'000}, size_t{1} << 20}) {
        Transfer(client, server, RandomBytes(size, size), read, late);
        Transfer(server, client, RandomBytes(size, size + 1), read, late);
        ASSERT_FALSE(HasFailure()) << size << " in pieces of " << read << (late ? ", late" : "");
      }
    }
  }
}

TEST_F(TlsSessionTest, KeysChange) {
  const auto both = authority.Identity({"server", "worker"});
  Begin(*both, *both, CertificateRole::kServer, CertificateRole::kWorker, "", 50'000);
  ShakeHands();
  Transfer(client, server, RandomBytes(5'000'000, 1), kPiece, false);
  Transfer(server, client, RandomBytes(5'000'000, 2), kPiece, true);
}

TEST_F(TlsSessionTest, AKeyIsUsedForSoManyBytesOnly) {
  const auto both = authority.Identity({"server", "worker"});
  Begin(*both, *both, CertificateRole::kServer, CertificateRole::kWorker, "", 50'000);
  ShakeHands();
  const auto ciphertext = [&] {
    Bytes sent = RandomBytes(60'000, 1);
    const iovec piece{sent.data(), sent.size()};
    bool moved = false;
    EXPECT_EQ(*client.session->Write({&piece, 1}, &moved), sent.size());
    int bytes = 0;
    EXPECT_EQ(ioctl(server.socket.get(), FIONREAD, &bytes), 0);
    EXPECT_EQ(*Read(server, sent.size()), sent);
    return bytes;
  };
  const int first = ciphertext();
  constexpr int kKeyUpdateBytes = 5 + (4 + 1) + 1 + 16;  // header, message, type, tag
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ciphertext(), first + kKeyUpdateBytes);
}

TEST_F(TlsSessionTest, SecretsDiffer) {
  const auto both = authority.Identity({"server", "worker"});
  Begin(*both, *both, CertificateRole::kServer, CertificateRole::kWorker);
  ShakeHands();
  const wire::SessionSecret first = client.session->ExportedSecret();
  Begin(*both, *both, CertificateRole::kServer, CertificateRole::kWorker);
  ShakeHands();
  EXPECT_NE(first, client.session->ExportedSecret());
}

TEST_F(TlsSessionTest, TheRoleOfEachSideIsChecked) {
  const auto worker = authority.Identity({"worker"});
  const auto ps = authority.Identity({"server"});
  // A worker in the place of a server.
  Begin(*worker, *worker, CertificateRole::kServer, CertificateRole::kWorker);
  ShakeHands();
  ASSERT_TRUE(client.refused && server.refused);
  EXPECT_EQ(client.refused->code(), Code::kFailedPrecondition);
  EXPECT_EQ(client.refused->message(),
            "the peer's certificate is for the role worker, here it must be for server");
  EXPECT_EQ(server.refused->message(), "the peer refuses this side's TLS: unsupported certificate");
  // A server that calls another server.
  Begin(*ps, *ps, CertificateRole::kServer, CertificateRole::kWorker);
  ShakeHands();
  ASSERT_TRUE(client.refused && server.refused);
  EXPECT_EQ(server.refused->message(),
            "the peer's certificate is for the role server, here it must be for worker");
  EXPECT_EQ(client.refused->code(), Code::kFailedPrecondition);
  EXPECT_EQ(client.refused->message(), "the peer refuses this side's TLS: unsupported certificate");
}

TEST_F(TlsSessionTest, TheHostIsChecked) {
  const auto both = authority.Identity({"server", "worker"}, {"10.0.0.5", "*.leat.cluster", "a.example"});
  for (const char* host : {"10.0.0.5", "b.leat.cluster", "a.example"}) {
    Begin(*both, *both, CertificateRole::kServer, CertificateRole::kWorker, host);
    ShakeHands();
    EXPECT_FALSE(client.refused || server.refused) << host;
  }
  for (const char* host : {"10.0.0.6", "a.b.leat.cluster", "leat.cluster", "b.example", "::1"}) {
    Begin(*both, *both, CertificateRole::kServer, CertificateRole::kWorker, host);
    ShakeHands();
    ASSERT_TRUE(client.refused) << host;
    EXPECT_EQ(client.refused->message(), std::string("the peer's certificate is not for the host ") + host);
  }
}

TEST_F(TlsSessionTest, CertificatesOfAnotherAuthorityAreRefused) {
  const auto ps = authority.Identity({"server"});
  TestAuthority other;
  const auto foreign = other.Identity({"worker"});
  Begin(*foreign, *ps, CertificateRole::kServer, CertificateRole::kWorker);
  ShakeHands();
  ASSERT_TRUE(client.refused);
  EXPECT_TRUE(client.refused->message().starts_with("the peer's certificate: ")) << client.refused->message();
  ASSERT_TRUE(server.refused);
  EXPECT_EQ(server.refused->message(), "the peer refuses this side's TLS: unknown CA");
}

TEST_F(TlsSessionTest, ChangedFilesAreReadForNewConnections) {
  const auto ps = authority.Identity({"server"});
  const fs::path folder = authority.Issue({"worker"});
  auto worker = TlsIdentity::Load(folder);
  ASSERT_TRUE(worker.ok());
  const auto works = [&] {
    Begin(**worker, *ps, CertificateRole::kServer, CertificateRole::kWorker);
    ShakeHands();
    return !client.refused && !server.refused;
  };
  EXPECT_TRUE(works());
  const fs::path next = authority.Issue({"bots"});
  // Half of it: the former certificate stays in use.
  fs::rename(next / "cert.pem", folder / "cert.pem");
  EXPECT_TRUE(works());
  fs::rename(next / "key.pem", folder / "key.pem");
  EXPECT_FALSE(works());
  ASSERT_TRUE(server.refused);
  EXPECT_EQ(server.refused->message(),
            "the peer's certificate is for the role bots, here it must be for worker");
}

TEST_F(TlsSessionTest, OtherBytesAreRefused) {
  const auto ps = authority.Identity({"server"});
  for (uint64_t seed = 0; seed < 200; ++seed) {
    MakeSockets();
    const CertificateRoles worker{CertificateRole::kWorker};
    server.session =
        ps->Begin(server.socket.get(), {.side = wire::Side::kAccepts, .peer_roles = worker}, buffers);
    Bytes bytes = RandomBytes(1 + seed * 7, seed);
    if (seed % 2 == 0) bytes[0] = std::byte{0x16};
    ASSERT_EQ(send(client.socket.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    ASSERT_EQ(shutdown(client.socket.get(), SHUT_WR), 0);
    client.refused = Status(Code::kAborted, "not a session");
    ShakeHands();
    EXPECT_TRUE(server.refused) << seed;
  }
}

TEST_F(TlsSessionTest, EveryTruncationIsTheEnd) {
  const auto both = authority.Identity({"server", "worker"});
  Begin(*both, *both, CertificateRole::kServer, CertificateRole::kWorker);
  ASSERT_TRUE(client.session->Handshake().ok());
  Bytes hello(2000);
  hello.resize(static_cast<size_t>(recv(server.socket.get(), hello.data(), hello.size(), 0)));
  for (size_t size = 0; size < hello.size(); size += 11) {
    MakeSockets();
    const CertificateRoles worker{CertificateRole::kWorker};
    server.session =
        both->Begin(server.socket.get(), {.side = wire::Side::kAccepts, .peer_roles = worker}, buffers);
    ASSERT_EQ(send(client.socket.get(), hello.data(), size, 0), static_cast<ssize_t>(size));
    ASSERT_EQ(shutdown(client.socket.get(), SHUT_WR), 0);
    client.refused = Status(Code::kAborted, "not a session");
    ShakeHands();
    ASSERT_TRUE(server.refused) << size;
    EXPECT_EQ(server.refused->code(), Code::kUnavailable) << size;
  }
}

TEST_F(TlsSessionTest, AChangedRecordEndsTheConnection) {
  const auto both = authority.Identity({"server", "worker"});
  Begin(*both, *both, CertificateRole::kServer, CertificateRole::kWorker);
  ShakeHands();
  Bytes message = RandomBytes(1000, 1);
  const iovec piece{message.data(), message.size()};
  bool moved = false;
  ASSERT_TRUE(client.session->Write({&piece, 1}, &moved).ok());
  Bytes record(2000);
  record.resize(static_cast<size_t>(recv(server.socket.get(), record.data(), record.size(), 0)));
  record[500] ^= std::byte{1};
  ASSERT_GT(send(client.socket.get(), record.data(), record.size(), 0), 0);
  const auto got = Read(server, 1000);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace leat::net
