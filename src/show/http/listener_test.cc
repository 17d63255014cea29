#include "show/http/listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <zlib.h>

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
#include "net/http_client/http_client.h"
#include "net/same_host/same_host_peer.h"
#include "net/tls/testing.h"

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
           [](const Request& request) {
             return Reply{.body = request.known ? "open, authorised\n" : "open\n"};
           }},
      {.path = "/secret",
       .handler =
           [](const Request& request) {
             return Reply{.type = kText,
                          .body = "hello " + request.head.QueryValue("name").value_or("nobody")};
           }},
      {.method = "POST",
       .path = "/session",
       .grants_cookie = true,
       .handler = [](const Request&) { return Reply{}; }},
      {.path = "/broken",
       .handler = [](const Request&) -> Reply { throw std::runtime_error("secret reason"); }},
      {.path = "/long", .handler = [](const Request&) { return Reply{.body = std::string(1 << 20, 'x')}; }},
      {.path = "/page",  // more than the buffers of a connection hold
       .access = HttpRoute::Access::kEveryone,
       .handler = [](const Request&) { return Reply{.body = std::string(16 << 20, 'x')}; }},
      {.path = "/breaks",
       .handler =
           [](const Request&) {
             return Reply{.type = kEventStream,
                          .stream = [first = true]() mutable -> std::optional<std::string> {
                            if (!std::exchange(first, false)) throw std::runtime_error("secret reason");
                            return "data: first\n\n";
                          }};
           }},
      {.path = "/count",
       .handler =
           [](const Request&) {
             return Reply{.type = kEventStream, .stream = [n = 0]() mutable -> std::optional<std::string> {
                            if (n == 3) return std::nullopt;
                            return "data: " + std::to_string(n++) + "\n\n";
                          }};
           }},
      {.path = "/endless",
       .handler =
           [](const Request&) {
             return Reply{.type = kEventStream,
                          .stream = [first = true]() mutable -> std::optional<std::string> {
                            return std::exchange(first, false) ? "data: first\n\n" : "";
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
  std::string Url() const { return (client_.ca.empty() ? "http://" : "https://") + listener_->address(); }
  using Fields = net::HttpClient::Fields;
  static Fields Bearer() { return {{"Authorization", "Bearer " + kToken}}; }
  // A reply by a library; status 0 without one.
  struct Said {
    int status = 0;
    Fields headers;
    std::string body;
    std::string Header(const std::string& name) const {
      return net::HttpClient::Reply{.headers = headers}.Header(name);
    }
  };
  Said Get(const std::string& path, const Fields& headers = {}) { return Ask("GET", path, headers); }
  Said Ask(const std::string& method, const std::string& path, const Fields& headers = {}) {
    const auto reply = net::MakeHttpClient(client_)->Do(
        {.method = method, .url = Url() + path, .headers = headers, .timeout = std::chrono::seconds(20)});
    if (!reply.ok()) return {};
    return {.status = reply->status, .headers = reply->headers, .body = std::string(AsText(reply->body))};
  }

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
  net::HttpClient::Options client_{.proxy = false};
};

TEST_F(ListenerTest, AnswersWithoutAndWithTheToken) {
  Start();
  const Said open = Get("/open");
  EXPECT_EQ(open.status, 200);
  EXPECT_EQ(open.body, "open\n");
  EXPECT_EQ(Get("/open", Bearer()).body, "open, authorised\n");
  const Said refused = Get("/secret");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.Header("www-authenticate"), "Bearer realm=\"leat\"");
  EXPECT_EQ(Get("/secret", {{"Authorization", "Bearer " + ViewToken("other")}}).status, 401);
  const Said told = Get("/secret?x&name=a%26b%20c+d", Bearer());
  EXPECT_EQ(told.status, 200);
  EXPECT_EQ(told.body, "hello a&b c d");
  EXPECT_EQ(told.Header("content-type"), "text/plain; charset=utf-8");
  EXPECT_EQ(Get("/s%65cret", Bearer()).status, 200);
  EXPECT_THAT(Answer("HEAD /open HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
              ::testing::AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("Content-Length: 5\r\n"),
                               ::testing::EndsWith("\r\n\r\n")));
  EXPECT_EQ(Get("/none").status, 404);
  EXPECT_EQ(Get("/session").status, 405);
  EXPECT_EQ(Get("/session").Header("allow"), "POST");
}

TEST_F(ListenerTest, AResponseIsCompressedForThoseWhoWantIt) {
  Start();
  Fields headers = Bearer();
  headers.emplace_back("Accept-Encoding", "gzip, br");
  const Said small = Get("/long", headers);
  EXPECT_EQ(small.Header("content-encoding"), "gzip");
  EXPECT_LT(small.body.size(), 10'000u);
  std::string body(2 << 20, 0);
  z_stream zlib{};
  ASSERT_EQ(inflateInit2(&zlib, MAX_WBITS + 16), Z_OK);
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(small.body.data()));
  zlib.avail_in = static_cast<uInt>(small.body.size());
  zlib.next_out = reinterpret_cast<Bytef*>(body.data());
  zlib.avail_out = static_cast<uInt>(body.size());
  EXPECT_EQ(inflate(&zlib, Z_FINISH), Z_STREAM_END);
  body.resize(zlib.total_out);
  inflateEnd(&zlib);
  EXPECT_EQ(body, std::string(1 << 20, 'x'));
}

TEST_F(ListenerTest, ABrowserGetsACookie) {
  Start();
  EXPECT_EQ(Ask("POST", "/session").status, 401);
  const Said granted = Ask("POST", "/session", Bearer());
  EXPECT_EQ(granted.status, 200);
  const std::string cookie = granted.Header("set-cookie");
  EXPECT_THAT(cookie, HasSubstr("HttpOnly; SameSite=Strict"));
  EXPECT_EQ(Get("/secret", {{"Cookie", cookie.substr(0, cookie.find(';'))}}).status, 200);
}

TEST_F(ListenerTest, EveryResponseHasTheHeadersThatProtectPages) {
  Start();
  for (const char* path : {"/open", "/secret", "/none", "/broken"}) {
    const Said response = Get(path, path == std::string("/secret") ? Fields() : Bearer());
    EXPECT_THAT(response.Header("content-security-policy"), StartsWith("default-src 'none'"));
    EXPECT_EQ(response.Header("x-content-type-options"), "nosniff") << path;
    EXPECT_EQ(response.Header("x-frame-options"), "DENY") << path;
    EXPECT_EQ(response.Header("cache-control"), "no-store") << path;
  }
  EXPECT_THAT(Answer("nonsense\r\n\r\n"), HasSubstr("X-Content-Type-Options: nosniff"));
}

TEST_F(ListenerTest, OtherHostsAndOriginsAreRefused) {
  Start({.hosts = {"leat.example"}});
  EXPECT_EQ(Get("/open", {{"Host", "leat.example"}}).status, 200);
  EXPECT_EQ(Get("/open", {{"Host", "attacker.example"}}).status, 421);
  EXPECT_EQ(Get("/open", {{"Origin", "http://attacker.example"}}).status, 403);
  EXPECT_EQ(Get("/open", {{"Origin", Url()}}).status, 200);
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
  const Said broken = Get("/broken", Bearer());
  EXPECT_EQ(broken.status, 500);
  EXPECT_EQ(broken.body.find("secret reason"), std::string::npos);
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
              StartsWith("HTTP/1.1 405"));
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
  EXPECT_TRUE(WaitFor([this] { return Get("/open").status == 200; }));
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
  // An idle connection has made room, so at most one of the two is left.
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
  EXPECT_EQ(Get("/secret", Bearer()).status, 200);
  // A slow reader had to go, and not the viewer.
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
  const Said counted = Get("/count", Bearer());
  EXPECT_EQ(counted.body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
  EXPECT_EQ(counted.Header("content-type"), "text/event-stream");
}

TEST_F(ListenerTest, AnErrorOfAStreamEndsItsConnectionOnly) {
  Start({.max_streams = 1});
  const std::string all =
      Answer("GET /breaks HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  EXPECT_THAT(all, HasSubstr("data: first"));
  EXPECT_EQ(all.find("secret reason"), std::string::npos);
  EXPECT_TRUE(WaitFor([this] { return Get("/count", Bearer()).status == 200; }));
}

TEST_F(ListenerTest, StreamsAreLimitedAndEndWithTheListener) {
  Start({.max_streams = 1});
  EXPECT_EQ(Get("/endless").status, 401);
  const net::Descriptor viewer = Connect();
  Send(viewer, "GET /endless HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  EXPECT_THAT(Receive(viewer, "data: first"), HasSubstr("Transfer-Encoding: chunked"));
  EXPECT_EQ(Get("/endless", Bearer()).status, 503);
  EXPECT_EQ(Get("/open").status, 200);
  listener_.reset();
  Receive(viewer);  // until the end of the connection
}

// There are more of them than threads.
TEST_F(ListenerTest, PagesThatStayOpenKeepNobodyOut) {
  Start();
  std::vector<net::Descriptor> viewers;
  for (int i = 0; i < 10; ++i) {
    viewers.push_back(Connect());
    Send(viewers.back(),
         "GET /endless HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
    EXPECT_THAT(Receive(viewers.back(), "data: first"), StartsWith("HTTP/1.1 200"));
  }
  EXPECT_EQ(Get("/secret", Bearer()).status, 200);
  EXPECT_EQ(Get("/count", Bearer()).body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
}

TEST_F(ListenerTest, AStreamEndsWhenItsViewerHasGone) {
  Start({.max_streams = 1});
  {
    const net::Descriptor viewer = Connect();
    Send(viewer, "GET /count HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + kToken + "\r\n\r\n");
  }
  EXPECT_TRUE(WaitFor([this] { return Get("/count", Bearer()).status == 200; }));
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
  TlsListenerTest() {
    Start({.tls = authority_.Identity({"coordinator"}, {"127.0.0.1", "c.example", "*.leat.example"})});
    client_.ca = authority_.path("ca") / "ca.pem";
  }
  // A client with the certificate in `folder`.
  void Show(const std::string& folder) {
    client_.certificate = folder + "/cert.pem";
    client_.key = folder + "/key.pem";
  }
  net::testing::TestAuthority authority_;
};

TEST_F(TlsListenerTest, ClientsNeedNoCertificate) {
  EXPECT_EQ(Get("/open").body, "open\n");
  EXPECT_EQ(Get("/secret").status, 401);
  EXPECT_EQ(Get("/secret", Bearer()).status, 200);
  EXPECT_THAT(Ask("POST", "/session", Bearer()).Header("set-cookie"), HasSubstr("Secure"));
  EXPECT_EQ(Get("/long", Bearer()).body.size(), size_t{1} << 20);
  EXPECT_EQ(Get("/count", Bearer()).body, "data: 0\n\ndata: 1\n\ndata: 2\n\n");
}

TEST_F(TlsListenerTest, AnObserversCertificateAuthorises) {
  Show(authority_.Issue({"observer"}));
  EXPECT_EQ(Get("/secret").status, 200);
  Show(authority_.Issue({"worker"}));
  EXPECT_EQ(Get("/secret").status, 401);
}

TEST_F(TlsListenerTest, ACertificateOfAnotherAuthorityIsRefused) {
  net::testing::TestAuthority other;
  Show(other.Issue({"observer"}));
  EXPECT_EQ(Get("/open").status, 0);
}

TEST_F(TlsListenerTest, NamesOfTheCertificateAreKnown) {
  EXPECT_EQ(Get("/open", {{"Host", "c.example:9464"}}).status, 200);
  EXPECT_EQ(Get("/open", {{"Host", "worker-1.leat.example"}}).status, 200);
  EXPECT_EQ(Get("/open", {{"Host", "leat.example"}}).status, 421);
  EXPECT_EQ(Get("/open", {{"Host", "d.example"}}).status, 421);
}

TEST_F(TlsListenerTest, APeerWithoutTlsIsTold) {
  EXPECT_THAT(Answer("GET /open HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              ::testing::AllOf(StartsWith("HTTP/1.1 400"), HasSubstr("https")));
}

}  // namespace
}  // namespace leat::observe
