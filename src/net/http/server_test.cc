#include "net/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/clock.h"
#include "base/testing.h"
#include "net/address.h"
#include "net/tls/testing.h"

namespace leat::net::http {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using asio::ip::tcp;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kSecret = "GET /secret HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n";
constexpr const char* kHealth = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

// Replies with what it was asked, at once; a request for /later is kept.
class Echo final : public Handler {
 public:
  Admission Admit(const RequestHead& head, CertificateRoles) override {
    const std::string_view path = head.path(), authorization = head.Header("authorization");
    if (path == "/health") return {.body = false, .peer = Admission::Peer::kUnknown};
    if (authorization == "Bearer x") return {.peer = Admission::Peer::kKnown};
    if (path == "/secret") return {.refusal = Error(401, "no")};
    return {};
  }
  Reply Error(int status, std::string_view why) const override {
    return {.status = status, .body = std::string(why)};
  }
  void Handle(size_t thread, Request request, std::shared_ptr<Exchange> exchange) override {
    const std::string path(request.head.path());
    std::unique_lock lock(mutex);
    EXPECT_LT(thread, 4u);
    if (path == "/later") {
      kept.push_back(std::move(exchange));
      return;
    }
    if (path == "/hangs") hangs.wait(lock, [this] { return go_on; });
    if (path == "/throws") throw std::bad_alloc();
    if (path == "/throws-late") {
      Exchange& on = *exchange;
      return on.Post([exchange] { throw std::runtime_error("secret reason"); });
    }
    if (path == "/stream") {
      return exchange->Send({.stream = [n = 0]() mutable -> std::optional<std::string> {
        const char* const pieces[] = {"abc", "", "", "de"};
        return n < 4 ? std::optional<std::string>(pieces[n++]) : std::nullopt;
      }});
    }
    if (path == "/endless") {
      const std::shared_ptr<void> open(nullptr, [this](void*) { --streams; });
      ++streams;
      return exchange->Send({.stream = [open] { return ""; }});
    }
    if (path == "/large") return exchange->Send({.body = std::string(4 << 20, 'x')});
    exchange->Send({.body = request.head.method + " " + path + " " + request.body + "\n"});
  }
  void OnRoundEnd(size_t) override { ++rounds; }
  size_t kept_now() {
    std::lock_guard lock(mutex);
    return kept.size();
  }
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> kept;
  std::condition_variable hangs;
  bool go_on = false;
  std::atomic<int> rounds{0}, streams{0};
};

class ServerTest : public ::testing::Test {
 protected:
  void Start(Server::Options options = {}) {
    auto started = Server::Start(std::move(options), echo, registry);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    server = std::move(*started);
  }
  tcp::socket Connect() {
    const auto address = ParseAddress(server->address()).value();
    tcp::socket socket(context);
    socket.connect({asio::ip::make_address(address.host), address.port});
    return socket;
  }
  static void Send(tcp::socket& socket, const std::string& bytes) {
    asio::write(socket, asio::buffer(bytes));
  }
  // A reply whole, by its length.
  template <class Stream>
  static std::string Receive(Stream& stream) {
    std::string bytes;
    boost::system::error_code error;
    while (bytes.find("\r\n\r\n") == std::string::npos && !error) {
      char byte = 0;
      if (asio::read(stream, asio::buffer(&byte, 1), error) == 1) bytes += byte;
    }
    const size_t at = bytes.find("Content-Length: ");
    if (at == std::string::npos) return bytes;
    const size_t length = std::stoul(bytes.substr(at + 16));
    std::string body(length, 0);
    body.resize(asio::read(stream, asio::buffer(body), error));
    return bytes + body;
  }
  // Everything until the server closes.
  static std::string ReceiveAll(tcp::socket& socket) {
    std::string bytes;
    boost::system::error_code error;
    asio::read(socket, asio::dynamic_buffer(bytes), error);
    return bytes;
  }
  std::string Ask(const std::string& bytes) {
    tcp::socket socket = Connect();
    Send(socket, bytes);
    return Receive(socket);
  }

  asio::io_context context;
  Echo echo;
  metrics::Registry registry;
  std::unique_ptr<Server> server;
};

TEST_F(ServerTest, ManyRequestsOnOneConnection) {
  Start({.threads = 2});
  tcp::socket socket = Connect();
  for (int i = 0; i < 50; ++i) {
    Send(socket, "POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    const std::string reply = Receive(socket);
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(reply, ::testing::EndsWith("\r\n\r\nPOST /a abc\n"));
  }
  EXPECT_EQ(registry.counter("leat_serve_requests_total").value(), 50u);
  EXPECT_GT(echo.rounds, 0);
}

TEST_F(ServerTest, SaysWhenAThreadHangs) {
  Start({.threads = 2});
  const Time began = server->turned();
  ASSERT_TRUE(WaitFor([&] { return server->turned() > began; }));
  tcp::socket socket = Connect();
  Send(socket, "GET /hangs HTTP/1.1\r\nHost: x\r\n\r\n");
  const MonotonicClock clock;
  ASSERT_TRUE(WaitFor([&] { return clock.Now() - server->turned() > std::chrono::seconds(1); }));
  {
    std::lock_guard lock(echo.mutex);
    echo.go_on = true;
  }
  echo.hangs.notify_all();
  EXPECT_THAT(Receive(socket), StartsWith("HTTP/1.1 200 OK\r\n"));
  ASSERT_TRUE(WaitFor([&] { return clock.Now() - server->turned() < std::chrono::seconds(1); }));
}

TEST_F(ServerTest, RequestsMayComeInPiecesOrTogether) {
  Start();
  tcp::socket socket = Connect();
  for (const char c : std::string("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"))
    Send(socket, {c});
  EXPECT_THAT(Receive(socket), HasSubstr("POST / abc"));
  const std::string get = "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n";
  Send(socket, get + get + get);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Receive(socket), HasSubstr("GET /1"));
  Send(socket,
       "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_THAT(Receive(socket), HasSubstr("POST /c abcde"));
}

TEST_F(ServerTest, AClientMayWaitForContinue) {
  Start();
  tcp::socket socket = Connect();
  Send(socket, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(Receive(socket), "HTTP/1.1 100 Continue\r\n\r\n");
  Send(socket, "abc");
  EXPECT_THAT(Receive(socket), HasSubstr("POST / abc"));
}

TEST_F(ServerTest, TheConnectionEndsWhenTheClientWants) {
  Start();
  tcp::socket socket = Connect();
  Send(socket, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(ReceiveAll(socket), HasSubstr("Connection: close\r\n"));
  socket = Connect();
  Send(socket, "GET / HTTP/1.0\r\n\r\n");
  EXPECT_THAT(ReceiveAll(socket), HasSubstr("GET / \n"));
}

TEST_F(ServerTest, HeadHasNoBody) {
  Start();
  tcp::socket socket = Connect();
  Send(socket, "HEAD /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string reply = ReceiveAll(socket);
  EXPECT_THAT(reply, HasSubstr("Content-Length: 8\r\n"));
  EXPECT_THAT(reply, ::testing::EndsWith("\r\n\r\n"));
}

TEST_F(ServerTest, ALargeReplyArrivesWhole) {
  Start();
  EXPECT_THAT(Ask("GET /large HTTP/1.1\r\nHost: x\r\n\r\n"), ::testing::EndsWith(std::string(4 << 20, 'x')));
}

TEST_F(ServerTest, WhatIsTooLargeOrNoRequest) {
  Start({.max_body = 10});
  EXPECT_THAT(Ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nabc"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(
      Ask("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nabcdefghijk\r\n0\r\n\r\n"),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: x\r\nA: " + std::string(20 << 10, 'a') + "\r\n\r\n"),
              StartsWith("HTTP/1.1 431 "));
  for (const char* bytes :
       {"nonsense\r\n\r\n", "\x16\x03\x01\x02", "GET / HTTP/2.0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "GET  / HTTP/1.1\r\nA B: c\r\n\r\n"})
    EXPECT_THAT(Ask(bytes), StartsWith("HTTP/1.1 400 ")) << bytes;
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
}

// The reply arrives although the body is still on its way.
TEST_F(ServerTest, ARefusalIsNotLostInAReset) {
  Start({.max_body = 1000});
  for (int i = 0; i < 20; ++i) {
    tcp::socket socket = Connect();
    Send(socket, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n");
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(std::string(2'000'000, 'a')), ignored);
    EXPECT_THAT(ReceiveAll(socket), StartsWith("HTTP/1.1 413 "));
  }
}

// A refused peer does not have its body read.
TEST_F(ServerTest, ARequestCanBeRefusedByItsHead) {
  Start();
  tcp::socket socket = Connect();
  Send(socket, "POST /secret?a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc");
  EXPECT_THAT(ReceiveAll(socket),
              ::testing::AllOf(StartsWith("HTTP/1.1 401 "), HasSubstr("WWW-Authenticate: Bearer"),
                               HasSubstr("Connection: close")));
  EXPECT_THAT(Ask("GET /secret HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n"),
              HasSubstr("GET /secret"));
}

TEST_F(ServerTest, SlowAndIdleClientsAreDropped) {
  Start({.request_timeout = 100ms, .idle_timeout = 150ms});
  tcp::socket slow = Connect(), idle = Connect();
  Send(slow, "POST / HTTP/1.1\r\nHost: x\r\nContent-Le");
  EXPECT_EQ(ReceiveAll(slow), "");
  EXPECT_EQ(ReceiveAll(idle), "");
  EXPECT_TRUE(WaitFor([&] { return registry.gauge("leat_serve_connections").value() == 0; }));
}

TEST_F(ServerTest, ClientsThatDoNotReadAreDropped) {
  Start({.write_timeout = 200ms});
  tcp::socket socket = Connect();
  for (int i = 0; i < 8; ++i) Send(socket, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(WaitFor([&] { return registry.gauge("leat_serve_connections").value() == 0; }));
}

TEST_F(ServerTest, ConnectionsBeyondTheLimitAreRefused) {
  Start({.max_connections = 2});
  tcp::socket one = Connect(), two = Connect();
  for (tcp::socket* socket : {&one, &two}) Send(*socket, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(WaitFor([&] { return echo.kept_now() == 2; }));
  tcp::socket three = Connect();
  Send(three, "G");
  EXPECT_THAT(ReceiveAll(three), StartsWith("HTTP/1.1 503 "));
  {
    std::lock_guard lock(echo.mutex);
    echo.kept.clear();
  }
  EXPECT_TRUE(WaitFor([&] { return registry.gauge("leat_serve_connections").value() == 0; }));
  EXPECT_THAT(Ask(kHealth), StartsWith("HTTP/1.1 200 "));
}

// Neither those that say nothing, nor those that ask for what everyone may have.
TEST_F(ServerTest, UnknownPeersKeepNobodyOut) {
  for (const size_t threads : {size_t{1}, size_t{3}}) {
    Start({.threads = threads, .max_connections = 10});
    tcp::socket known = Connect();
    Send(known, kSecret);
    EXPECT_THAT(Receive(known), HasSubstr("GET /secret"));
    std::vector<tcp::socket> unknown;
    for (int i = 0; i < 200; ++i) {
      unknown.push_back(Connect());
      if (i % 3 == 1) Send(unknown.back(), "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
      if (i % 3 == 2) Send(unknown.back(), kHealth);
      if (i % 20 > 0) continue;
      EXPECT_THAT(Ask(kSecret), HasSubstr("GET /secret"));
      Send(known, kSecret);
      EXPECT_THAT(Receive(known), HasSubstr("GET /secret")) << "the connection stays";
      EXPECT_TRUE(WaitFor([&] { return registry.gauge("leat_serve_connections").value() <= 10; }));
    }
  }
}

// Far more of them than there are places come between a client's connection and its request.
TEST_F(ServerTest, SilentPeersDriveOutNoneThatIsAboutToAsk) {
  Start({.threads = 2, .max_connections = 4});
  std::atomic<bool> over = false;
  std::atomic<int> silent_peers = 0;
  std::thread flood([&] {
    std::deque<tcp::socket> silent;
    while (!over) {
      silent.push_back(Connect());
      ++silent_peers;
      if (silent.size() > 500) silent.pop_front();
    }
  });
  // A peer that is silent for a second is one of the others, so on a busy machine some attempts do not count.
  const MonotonicClock clock;
  const Time end = clock.Now() + std::chrono::minutes(2);
  for (int counted = 0; counted < 20 && clock.Now() < end;) {
    tcp::socket socket = Connect();
    const Time connected = clock.Now();
    const int before = silent_peers;
    ASSERT_TRUE(WaitFor([&] { return silent_peers > before + 100; }));
    if (clock.Now() - connected > 300ms) continue;
    Send(socket, kSecret);
    EXPECT_THAT(Receive(socket), HasSubstr("GET /secret"));
    ++counted;
  }
  over = true;
  flood.join();
}

TEST_F(ServerTest, IfAllAreKnownTheOneThatIsIdleForLongestEnds) {
  Start({.max_connections = 2});
  tcp::socket one = Connect(), two = Connect();
  for (tcp::socket* socket : {&one, &two, &one}) {
    Send(*socket, kSecret);
    EXPECT_THAT(Receive(*socket), HasSubstr("GET /secret"));
  }
  EXPECT_THAT(Ask(kSecret), HasSubstr("GET /secret"));
  EXPECT_EQ(ReceiveAll(two), "");
  Send(one, kSecret);
  EXPECT_THAT(Receive(one), HasSubstr("GET /secret"));
}

// A client that may ask has time to think.
TEST_F(ServerTest, UnknownPeersAreIdleForAShorterTime) {
  Start({.request_timeout = 1s, .idle_timeout = std::chrono::minutes(2)});
  tcp::socket known = Connect(), unknown = Connect(), silent = Connect();
  Send(known, kSecret);
  EXPECT_THAT(Receive(known), HasSubstr("GET /secret"));
  Send(unknown, kHealth);
  EXPECT_THAT(Receive(unknown), HasSubstr("GET /health"));
  EXPECT_EQ(ReceiveAll(unknown), "");
  EXPECT_EQ(ReceiveAll(silent), "");
  Send(known, kSecret);
  EXPECT_THAT(Receive(known), HasSubstr("GET /secret"));
}

// Also without an end, and from a client that is not admitted to more.
TEST_F(ServerTest, EndlessExtensionsAndTrailersEndTheirConnectionOnly) {
  Start();
  tcp::socket good = Connect();
  const std::string many(100'000, 'a');
  for (const char* path : {"/", "/health"}) {
    for (const std::string& body : {"1;" + many, "0\r\nA: " + many, "1;" + many + "\r\nx\r\n0\r\n\r\n"}) {
      tcp::socket socket = Connect();
      boost::system::error_code ignored;
      asio::write(socket,
                  asio::buffer("POST " + std::string(path) +
                               " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body),
                  ignored);
      EXPECT_THAT(ReceiveAll(socket), StartsWith("HTTP/1.1 4"));
      Send(good, kSecret);
      EXPECT_THAT(Receive(good), HasSubstr("GET /secret"));
    }
  }
}

TEST_F(ServerTest, AnExceptionIsAReply) {
  Start();
  tcp::socket socket = Connect();
  for (const char* path : {"/throws", "/throws-late", "/throws"}) {
    Send(socket, "GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_THAT(Receive(socket),
                ::testing::AllOf(StartsWith("HTTP/1.1 500 "), ::testing::Not(HasSubstr("secret reason"))));
  }
  Send(socket, kSecret);
  EXPECT_THAT(Receive(socket), HasSubstr("GET /secret"));
}

TEST_F(ServerTest, PagesOfOtherHostsAreRefused) {
  Start({.own_names = OwnNames({}, "127.0.0.1:0")});
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: localhost:80\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n"), StartsWith("HTTP/1.1 421 "));
}

TEST_F(ServerTest, RepliesMayComeLaterFromAnywhere) {
  Start({.threads = 4});
  std::vector<tcp::socket> sockets;
  for (int i = 0; i < 8; ++i) {
    sockets.push_back(Connect());
    Send(sockets.back(), "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  ASSERT_TRUE(WaitFor([&] { return echo.kept_now() == 8; }));
  sockets[3].close();  // its reply is dropped
  for (auto& exchange : echo.kept) {
    Exchange& on = *exchange;
    on.Post([exchange = std::move(exchange)] { exchange->Send({.body = "late\n"}); });
  }
  for (int i = 0; i < 8; ++i) {
    if (i == 3) continue;
    EXPECT_THAT(Receive(sockets[i]), HasSubstr("late"));
  }
}

TEST_F(ServerTest, StreamsArePolled) {
  Start();
  tcp::socket socket = Connect();
  Send(socket,
       "GET /stream HTTP/1.1\r\nHost: x\r\n\r\nGET /1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string all = ReceiveAll(socket);
  EXPECT_THAT(all, HasSubstr("Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"));
  EXPECT_THAT(all, HasSubstr("\r\n2\r\nde\r\n0\r\n\r\nHTTP/1.1 200 OK"));
  EXPECT_THAT(all, ::testing::EndsWith("GET /1 \n"));
  Send(socket = Connect(), "HEAD /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(ReceiveAll(socket), ::testing::EndsWith("\r\n\r\n"));
  Send(socket = Connect(), "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n");
  while (echo.streams == 0) std::this_thread::sleep_for(1ms);
  server.reset();
  EXPECT_EQ(echo.streams, 0) << "ends with the server";
}

TEST_F(ServerTest, DrainAnswersWhatHasBegun) {
  Start();
  tcp::socket busy = Connect(), idle = Connect();
  Send(idle, kHealth);
  EXPECT_THAT(Receive(idle), HasSubstr("GET /health"));
  Send(busy, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(WaitFor([&] { return echo.kept_now() == 1; }));
  std::thread drain([&] { server->Drain(30s); });
  EXPECT_EQ(ReceiveAll(idle), "");
  Exchange& on = *echo.kept[0];
  on.Post([exchange = std::move(echo.kept[0])] { exchange->Send({.body = "late\n"}); });
  echo.kept.clear();
  EXPECT_THAT(ReceiveAll(busy), HasSubstr("Connection: close\r\n"));
  drain.join();
}

TEST_F(ServerTest, EndsWithRequestsThatNobodyAnswers) {
  Start();
  tcp::socket socket = Connect();
  Send(socket, "GET /later HTTP/1.1\r\nHost: x\r\n\r\n");
  ASSERT_TRUE(WaitFor([&] { return echo.kept_now() == 1; }));
  echo.kept.clear();
  server.reset();
  EXPECT_EQ(ReceiveAll(socket), "");
}

TEST_F(ServerTest, AnAddressInUseIsRefused) {
  Start();
  const auto again = Server::Start({.address = server->address()}, echo, registry);
  EXPECT_THAT(again.status().message(), StartsWith("cannot listen on " + server->address() + ": "));
  EXPECT_THAT(Server::Start({.address = "nonsense"}, echo, registry).status().message(),
              HasSubstr("nonsense"));
}

class HttpsTest : public ServerTest {
 protected:
  // The server has the certificate in `folder`.
  void StartTls(const std::filesystem::path& folder, Server::Options options = {}) {
    options.tls = TlsIdentity::Load(folder / "cert.pem", folder / "key.pem").value();
    Start(std::move(options));
  }
  std::string AskTls(const std::string& bytes, const std::string& trusted, int replies = 1, int version = 0) {
    asio::ssl::context tls(asio::ssl::context::tls_client);
    tls.load_verify_file(trusted);
    tls.set_verify_mode(asio::ssl::verify_peer);
    SSL_CTX_set_max_proto_version(tls.native_handle(), version);
    asio::ssl::stream<tcp::socket> stream(Connect(), tls);
    stream.handshake(asio::ssl::stream_base::client);
    asio::write(stream, asio::buffer(bytes));
    std::string all;
    for (int i = 0; i < replies; ++i) all += Receive(stream);
    return all;
  }
  net::testing::TestAuthority authority;
};

TEST_F(HttpsTest, ClientsNeedNoCertificate) {
  const auto folder = authority.Issue({"worker"});
  StartTls(folder);
  EXPECT_THAT(AskTls("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", folder / "ca.pem"), HasSubstr("GET /a"));
  EXPECT_THAT(Ask("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"),
              ::testing::AllOf(StartsWith("HTTP/1.1 400 "), HasSubstr("https")));
}

TEST_F(HttpsTest, LargeRequestsAndRepliesAndPipelines) {
  const auto folder = authority.Issue({"worker"});
  StartTls(folder);
  EXPECT_THAT(AskTls("GET /large HTTP/1.1\r\nHost: x\r\n\r\n", folder / "ca.pem"),
              ::testing::EndsWith(std::string(4 << 20, 'x')));
  const std::string body(1 << 20, 'a');
  EXPECT_THAT(
      AskTls("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n" + body, folder / "ca.pem"),
      ::testing::EndsWith("POST /b " + body + "\n"));
  std::string many;
  for (int i = 0; i < 5000; ++i) many += "GET /c HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string all = AskTls(many, folder / "ca.pem", 5000);
  EXPECT_THAT(all, ::testing::EndsWith("GET /c \n"));
  EXPECT_EQ(registry.counter("leat_serve_requests_total").value(), 5002u);
}

TEST_F(HttpsTest, OlderTlsIsASetting) {
  const auto folder = authority.Issue({"worker"});
  const char* const get = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
  StartTls(folder);
  EXPECT_THROW(AskTls(get, folder / "ca.pem", 1, TLS1_2_VERSION), boost::system::system_error);
  StartTls(folder, {.allow_tls_1_2 = true});
  EXPECT_THAT(AskTls(get, folder / "ca.pem", 1, TLS1_2_VERSION), HasSubstr("GET /a"));
  EXPECT_THAT(AskTls(get, folder / "ca.pem", 1, TLS1_3_VERSION), HasSubstr("GET /a"));
  EXPECT_THROW(AskTls(get, folder / "ca.pem", 1, TLS1_1_VERSION), boost::system::system_error);
}

TEST_F(HttpsTest, SlowClientsAreDropped) {
  const auto folder = authority.Issue({"worker"});
  StartTls(folder, {.request_timeout = 100ms});
  tcp::socket silent = Connect(), begun = Connect();
  Send(begun, "\x16\x03\x01");
  EXPECT_EQ(ReceiveAll(silent), "");
  EXPECT_EQ(ReceiveAll(begun), "");
  EXPECT_TRUE(WaitFor([&] { return registry.gauge("leat_serve_connections").value() == 0; }));
}

TEST_F(HttpsTest, ACertificateThatChangesIsReadAgain) {
  const auto folder = authority.Issue({"worker"});
  StartTls(folder);
  AskTls("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", folder / "ca.pem");
  net::testing::TestAuthority other;
  const auto next = other.Issue({"worker"});
  for (const char* file : {"key.pem", "cert.pem"})
    std::filesystem::copy_file(next / file, folder / file, std::filesystem::copy_options::overwrite_existing);
  EXPECT_TRUE(WaitFor([&] {
    try {
      return AskTls("GET /a HTTP/1.1\r\nHost: x\r\n\r\n", next / "ca.pem").find("GET /a") !=
             std::string::npos;
    } catch (const boost::system::system_error&) {
      return false;  // still the former one
    }
  }));
}

TEST_F(HttpsTest, FilesThatAreRefused) {
  const auto folder = authority.Issue({"worker"}), other = authority.Issue({"worker"});
  const auto refusal = [&](const std::string& certificate, const std::string& key) {
    return TlsIdentity::Load(certificate, key).status().message();
  };
  EXPECT_THAT(refusal(folder / "nothing.pem", folder / "key.pem"), HasSubstr("nothing.pem"));
  EXPECT_THAT(refusal(folder / "key.pem", folder / "key.pem"), HasSubstr("not a certificate in PEM"));
  EXPECT_THAT(refusal(folder / "cert.pem", other / "key.pem"), HasSubstr("not the key of"));
}

}  // namespace
}  // namespace leat::net::http
