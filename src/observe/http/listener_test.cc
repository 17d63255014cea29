#include "observe/http/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "net/address.h"
#include "net/same_host/descriptor.h"
#include "net/tls/testing.h"
#include "observe/http/view_token.h"

namespace leat::observe {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kToken = ViewToken("token");

std::vector<HttpRoute> Routes() {
  return {
      {.path = "/open",
       .access = HttpRoute::Access::kEveryone,
       .handler =
           [](const HttpRequest& request) {
             return HttpResponse{.body = request.authorised ? "open, authorised\n" : "open\n"};
           }},
      {.path = "/secret",
       .handler =
           [](const HttpRequest& request) {
             const auto at = request.query.find("name");
             return HttpResponse{.body = "hello " + (at == request.query.end() ? "nobody" : at->second)};
           }},
      {.method = "POST",
       .path = "/session",
       .handler = [](const HttpRequest&) { return HttpResponse{.status = 204, .grant_cookie = true}; }},
      {.path = "/broken",
       .handler = [](const HttpRequest&) -> HttpResponse { throw std::runtime_error("secret reason"); }},
      {.path = "/long",
       .handler = [](const HttpRequest&) { return HttpResponse{.body = std::string(1 << 20, 'x')}; }},
      {.path = "/page",  // more than the buffers of a connection hold
       .access = HttpRoute::Access::kEveryone,
       .handler = [](const HttpRequest&) { return HttpResponse{.body = std::string(16 << 20, 'x')}; }},
      {.path = "/breaks",
       .handler =
           [](const HttpRequest&) {
             return HttpResponse{.type = kEventStream,
                                 .stream = [first = true](Duration) mutable -> std::optional<std::string> {
                                   if (!std::exchange(first, false))
                                     throw std::runtime_error("secret reason");
                                   return "data: first\n\n";
                                 }};
           }},
      {.path = "/count",
       .handler =
           [](const HttpRequest&) {
             return HttpResponse{.type = kEventStream,
                                 .stream = [n = 0](Duration) mutable -> std::optional<std::string> {
                                   if (n == 3) return std::nullopt;
                                   return "data: " + std::to_string(n++) + "\n\n";
                                 }};
           }},
      {.path = "/endless",
       .handler =
           [](const HttpRequest&) {
             return HttpResponse{
                 .type = kEventStream,
                 .stream = [first = true](Duration wait) mutable -> std::optional<std::string> {
                   if (std::exchange(first, false)) return "data: first\n\n";
                   std::this_thread::sleep_for(wait);  // as one without news
                   return "";
                 }};
           }},
  };
}

class ListenerTest : public ::testing::Test {
 protected:
  void Start(HttpListener::Options options = {}) {
    options.view_token = kToken;
    auto listener = HttpListener::Start(std::move(options), Routes());
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    listener_ = std::move(*listener);
  }
  std::string Url(const std::string& scheme = "http") const { return scheme + "://" + listener_->address(); }
  httplib::Client Client() const { return httplib::Client(Url()); }
  static httplib::Headers Bearer() { return {{"Authorization", "Bearer " + kToken}}; }

  // A connection without a library.
  net::Descriptor Connect() const {
    const auto at = net::Resolve(listener_->address());
    net::Descriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), at->front().get(), at->front().size), 0);
    return fd;
  }
  static void Send(const net::Descriptor& fd, const std::string& text) {
    EXPECT_EQ(send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // All that comes until the end of the connection, or until `until` has come.
  static std::string Receive(const net::Descriptor& fd, const std::string& until = "") {
    std::string all;
    std::array<char, 4096> bytes;
    while (until.empty() || all.find(until) == std::string::npos) {
      const ssize_t got = recv(fd.get(), bytes.data(), bytes.size(), 0);
      if (got <= 0) break;
      all.append(bytes.data(), static_cast<size_t>(got));
    }
    return all;
  }
  std::string Answer(const std::string& request) const {
    const net::Descriptor fd = Connect();
    Send(fd, request);
    return Receive(fd);
  }

  std::unique_ptr<HttpListener> listener_;
};

TEST_F(ListenerTest, AnswersWithoutAndWithTheToken) {
  Start();
  auto client = Client();
  const auto open = client.Get("/open");
  ASSERT_TRUE(open);
  EXPECT_EQ(open->status, 200);
  EXPECT_EQ(open->body, "open\n");
  EXPECT_EQ(client.Get("/open", Bearer())->body, "open, authorised\n");
  const auto refused = client.Get("/secret");
  EXPECT_EQ(refused->status, 401);
  EXPECT_EQ(refused->get_header_value("WWW-Authenticate"), "Bearer realm=\"leat\"");
  EXPECT_EQ(client.Get("/secret", {{"Authorization", "Bearer " + ViewToken("other")}})->status, 401);
  const auto told = client.Get("/secret?name=a%26b%20c", Bearer());
  EXPECT_EQ(told->status, 200);
  EXPECT_EQ(told->body, "hello a&b c");
  EXPECT_EQ(told->get_header_value("Content-Type"), "text/plain; charset=utf-8");
  const auto head = client.Head("/secret", Bearer());
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->body, "");
  EXPECT_EQ(client.Get("/none")->status, 404);
  EXPECT_EQ(client.Get("/session")->status, 405);
  EXPECT_EQ(client.Get("/session")->get_header_value("Allow"), "POST");
}

TEST_F(ListenerTest, AResponseIsCompressedForThoseWhoWantIt) {
  Start();
  auto client = Client();
  httplib::Headers headers = Bearer();
  headers.emplace("Accept-Encoding", "gzip, br");
  const auto small = client.Get("/long", headers);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->get_header_value("Content-Encoding"), "gzip");
  EXPECT_EQ(small->body, std::string(1 << 20, 'x'));
  EXPECT_LT(std::stoul(small->get_header_value("Content-Length")), 10'000u);
}

TEST_F(ListenerTest, ABrowserGetsACookie) {
  Start();
  auto client = Client();
  EXPECT_EQ(client.Post("/session")->status, 401);
  const auto granted = client.Post("/session", Bearer());
  EXPECT_EQ(granted->status, 204);
  const std::string cookie = granted->get_header_value("Set-Cookie");
  EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Strict"));
  EXPECT_EQ(client.Get("/secret", {{"Cookie", cookie.substr(0, cookie.find(';'))}})->status, 200);
}

TEST_F(ListenerTest, EveryResponseHasTheHeadersThatProtectPages) {
  Start();
  auto client = Client();
  for (const char* path : {"/open", "/secret", "/none", "/broken"}) {
    const auto response = client.Get(path, path == std::string("/secret") ? httplib::Headers() : Bearer());
    ASSERT_TRUE(response) << path;
    EXPECT_THAT(response->get_header_value("Content-Security-Policy"), StartsWith("default-src 'none'"));
    EXPECT_EQ(response->get_header_value("X-Content-Type-Options"), "nosniff") << path;
    EXPECT_EQ(response->get_header_value("X-Frame-Options"), "DENY") << path;
    EXPECT_EQ(response->get_header_value("Cache-Control"), "no-store") << path;
  }
  EXPECT_THAT(Answer("nonsense\r\n\r\n"), HasSubstr("X-Content-Type-Options: nosniff"));
}

TEST_F(ListenerTest, OtherHostsAndOriginsAreRefused) {
  Start({.hosts = {"leat.example"}});
  auto client = Client();
  EXPECT_EQ(client.Get("/open", {{"Host", "leat.example"}})->status, 200);
  EXPECT_EQ(client.Get("/open", {{"Host", "attacker.example"}})->status, 421);
  EXPECT_EQ(client.Get("/open", {{"Origin", "http://attacker.example"}})->status, 403);
  EXPECT_EQ(client.Get("/open", {{"Origin", Url()}})->status, 200);
}

TEST_F(ListenerTest, ATargetMayNameTheHost) {
  Start();
  const auto answer = [this](const std::string& host, const std::string& path) {
    return Answer("GET http://" + host + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  };
  EXPECT_THAT(answer("127.0.0.1", "/open"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer("127.0.0.1:80", "/none?a=b"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer("127.0.0.1", ""), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(answer("attacker.example", "/open"), StartsWith("HTTP/1.1 421"));
}

TEST_F(ListenerTest, AnErrorOfAHandlerIsNotShown) {
  Start();
  const auto broken = Client().Get("/broken", Bearer());
  EXPECT_EQ(broken->status, 500);
  EXPECT_EQ(broken->body.find("secret reason"), std::string::npos);
}

TEST_F(ListenerTest, RequestsShareAConnection) {
  Start();
  const net::Descriptor fd = Connect();
  Send(fd,
       "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\nGET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"
       "GET /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string all = Receive(fd);
  EXPECT_EQ(all.find("HTTP/1.1 200 OK"), 0u);
  EXPECT_THAT(all, HasSubstr("open\nHTTP/1.1 404 Not Found"));
  EXPECT_THAT(all, HasSubstr("Connection: close"));
}

TEST_F(ListenerTest, WhatIsNoRequestEndsTheConnection) {
  Start();
  EXPECT_THAT(Answer("nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Answer("GET /open HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Answer("POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12345"),
              StartsWith("HTTP/1.1 413"));
  EXPECT_THAT(Answer("GET /" + std::string(10'000, 'a') +
                     " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 414"));
  EXPECT_THAT(Answer("DELETE /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 405"));
  EXPECT_THAT(Answer("BREW /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Answer("GET /open HTTP/1.1\r\nX: " + std::string(20'000, 'a')), StartsWith("HTTP/1.1 431"));
}

TEST_F(ListenerTest, ASlowPeerIsLeft) {
  Start({.request_timeout = milliseconds(50), .idle_timeout = milliseconds(50)});
  EXPECT_EQ(Answer(""), "");                                                         // says nothing
  EXPECT_EQ(Answer("GET /open HTTP/1.1\r\n"), "");                                   // does not end
  const std::string once = Answer("GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n");  // nothing more
  EXPECT_THAT(once, StartsWith("HTTP/1.1 200"));
}

TEST_F(ListenerTest, APeerThatReadsNothingIsLeft) {
  Start({.max_connections = 1, .write_timeout = milliseconds(50)});
  const net::Descriptor fd = Connect();
  std::string requests;
  for (int i = 0; i < 20; ++i)
    requests += "GET /long HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n";
  Send(fd, requests);
  EXPECT_TRUE(WaitFor([this] {
    const auto next = Client().Get("/open");
    return next && next->status == 200;
  }));
}

TEST_F(ListenerTest, IdleConnectionsKeepNobodyOut) {
  Start({.max_connections = 2});
  const net::Descriptor one = Connect(), two = Connect();
  const auto get = "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const auto* fd : {&one, &two}) {
    Send(*fd, get);
    EXPECT_THAT(Receive(*fd, "open\n"), StartsWith("HTTP/1.1 200"));
  }
  EXPECT_TRUE(WaitFor([&] {
    const net::Descriptor three = Connect();
    Send(three, get);
    return Receive(three, "open\n").starts_with("HTTP/1.1 200");
  }));
  // Of the two that were idle, one has made room.
  int left = 0;
  for (const auto* fd : {&one, &two}) {
    send(fd->get(), get, strlen(get), MSG_NOSIGNAL);
    left += Receive(*fd, "open\n").empty() ? 0 : 1;
  }
  EXPECT_LE(left, 1);
}

TEST_F(ListenerTest, AViewerIsIdleWhileOthersEnd) {
  Start({.max_connections = 2, .idle_timeout = std::chrono::minutes(1)});
  const net::Descriptor viewer = Connect();
  const std::string get =
      "GET /open HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n";
  for (int i = 0; i < 5; ++i) {
    Send(viewer, get);
    EXPECT_THAT(Receive(viewer, "authorised\n"), StartsWith("HTTP/1.1 200"));
    const net::Descriptor other = Connect(), next = Connect();
    Send(next, "GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(Receive(next, "open\n"), StartsWith("HTTP/1.1 200"));
  }
}

TEST_F(ListenerTest, SlowReadersWithoutTheTokenKeepNobodyOut) {
  Start({.max_connections = 3, .write_timeout = std::chrono::minutes(1)});
  const net::Descriptor viewer = Connect();
  Send(viewer, "GET /endless HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  EXPECT_THAT(Receive(viewer, "data: first"), StartsWith("HTTP/1.1 200"));
  const net::Descriptor one = Connect(), two = Connect();
  for (const auto* fd : {&one, &two}) {
    Send(*fd, "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(Receive(*fd, "HTTP/1.1 200"), StartsWith("HTTP/1.1 200"));  // the rest is not read
  }
  const auto next = Client().Get("/secret", Bearer());
  ASSERT_TRUE(next);
  EXPECT_EQ(next->status, 200);
  // One of them had to go, and not the viewer.
  char byte = 0;
  EXPECT_EQ(recv(viewer.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_LT(Receive(one).size() + Receive(two).size(), size_t{24} << 20);  // two pages are 32
}

TEST_F(ListenerTest, ConnectionsAreLimited) {
  Start({.max_connections = 1});
  const net::Descriptor viewer = Connect();
  Send(viewer, "GET /endless HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  EXPECT_THAT(Receive(viewer, "data: first"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Answer(""), StartsWith("HTTP/1.1 503"));
}

TEST_F(ListenerTest, StreamsEndByThemselves) {
  Start();
  const auto counted = Client().Get("/count", Bearer());
  ASSERT_TRUE(counted);
  EXPECT_EQ(counted->body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  EXPECT_EQ(counted->get_header_value("Content-Type"), "text/event-stream");
}

TEST_F(ListenerTest, AnErrorOfAStreamEndsItsConnectionOnly) {
  Start({.max_streams = 1});
  const std::string all =
      Answer("GET /breaks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  EXPECT_THAT(all, HasSubstr("data: first"));
  EXPECT_EQ(all.find("secret reason"), std::string::npos);
  EXPECT_TRUE(WaitFor([this] {
    const auto next = Client().Get("/count", Bearer());
    return next && next->status == 200;
  }));
}

TEST_F(ListenerTest, StreamsAreLimitedAndEndWithTheListener) {
  Start({.max_streams = 1});
  EXPECT_EQ(Client().Get("/endless")->status, 401);
  const net::Descriptor viewer = Connect();
  Send(viewer, "GET /endless HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  EXPECT_THAT(Receive(viewer, "data: first"), HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_EQ(Client().Get("/endless", Bearer())->status, 503);
  EXPECT_EQ(Client().Get("/open")->status, 200);
  listener_.reset();
  Receive(viewer);  // until the end of the connection
}

TEST_F(ListenerTest, AStreamEndsWhenItsViewerHasGone) {
  Start({.max_streams = 1});
  {
    const net::Descriptor viewer = Connect();
    Send(viewer, "GET /count HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  }
  EXPECT_TRUE(WaitFor([this] {
    const auto next = Client().Get("/count", Bearer());
    return next && next->status == 200;
  }));
}

TEST_F(ListenerTest, APortInUseIsNamed) {
  Start();
  const auto second = HttpListener::Start({.address = listener_->address(), .view_token = kToken}, Routes());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().message(),
            "cannot listen on " + listener_->address() + ": Address already in use");
  EXPECT_FALSE(HttpListener::Start({.address = "nonsense", .view_token = kToken}, Routes()).ok());
}

class TlsListenerTest : public ListenerTest {
 protected:
  TlsListenerTest() { Start({.tls = authority_.Identity({"coordinator"}, {"127.0.0.1"})}); }
  // `folder`: of the client's certificate.
  std::unique_ptr<httplib::SSLClient> Client(const std::string& folder = "") const {
    const auto at = net::ParseAddress(listener_->address());
    auto client = folder.empty() ? std::make_unique<httplib::SSLClient>(at->host, at->port)
                                 : std::make_unique<httplib::SSLClient>(
                                       at->host, at->port, folder + "/cert.pem", folder + "/key.pem");
    client->set_ca_cert_path((authority_.path("ca") / "ca.pem").c_str());
    client->enable_server_certificate_verification(true);
    return client;
  }
  net::testing::TestAuthority authority_;
};

TEST_F(TlsListenerTest, ClientsNeedNoCertificate) {
  const auto client = Client();
  const auto open = client->Get("/open");
  ASSERT_TRUE(open) << httplib::to_string(open.error());
  EXPECT_EQ(open->body, "open\n");
  EXPECT_EQ(client->Get("/secret")->status, 401);
  EXPECT_EQ(client->Get("/secret", Bearer())->status, 200);
  EXPECT_THAT(client->Post("/session", Bearer())->get_header_value("Set-Cookie"), HasSubstr("Secure"));
  EXPECT_EQ(client->Get("/long", Bearer())->body.size(), size_t{1} << 20);
}

TEST_F(TlsListenerTest, AnObserversCertificateAuthorises) {
  EXPECT_EQ(Client(authority_.Issue({"observer"}))->Get("/secret")->status, 200);
  EXPECT_EQ(Client(authority_.Issue({"worker"}))->Get("/secret")->status, 401);
}

TEST_F(TlsListenerTest, ACertificateOfAnotherAuthorityIsRefused) {
  net::testing::TestAuthority other;
  EXPECT_FALSE(Client(other.Issue({"observer"}))->Get("/open"));
}

TEST_F(TlsListenerTest, APeerWithoutTlsIsTold) {
  EXPECT_THAT(Answer("GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              ::testing::AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("https")));
}

}  // namespace
}  // namespace leat::observe
