#include "net/http_client/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "net/http_client/testing.h"

namespace leat::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::HttpStub;
using ::testing::Not;
using ::testing::StartsWith;

TEST(HttpClient, RepliesHaveAStatusHeadersAndABody) {
  HttpStub stub({{"/a?b=1", {203, "text"}}, {"/moved", {302, ""}}});
  const auto client = MakeHttpClient({});
  const auto reply =
      client->Do({.url = stub.url() + "/a?b=1", .headers = {{"x-name", "value"}}, .timeout = seconds(30)});
  ASSERT_TRUE(reply.ok()) << reply.status().ToString();
  EXPECT_EQ(reply->status, 203);
  EXPECT_EQ(AsText(reply->body), "text");
  EXPECT_EQ(reply->Header("content-length"), "4");
  EXPECT_EQ(reply->Header("etag"), "");
  EXPECT_THAT(stub.request(), HasSubstr("\r\nx-name: value\r\n"));
  const auto head = client->Do({.method = "HEAD", .url = stub.url() + "/a?b=1", .timeout = seconds(30)});
  ASSERT_TRUE(head.ok()) << head.status().ToString();
  EXPECT_EQ(head->Header("content-length"), "4");
  EXPECT_TRUE(head->body.empty());
  const auto moved = client->Do({.url = stub.url() + "/moved", .timeout = seconds(30)});
  ASSERT_TRUE(moved.ok()) << moved.status().ToString();
  EXPECT_EQ(moved->status, 302);
}

TEST(HttpClient, SendsBodiesAsTheyAre) {
  HttpStub stub({{"/", {200, ""}}});
  const auto client = MakeHttpClient({});
  std::string large(5 << 20, 0);
  std::iota(large.begin(), large.end(), 'a');
  for (const std::string& body : {std::string(), std::string("a\0b", 3), large}) {
    for (const char* method : {"PUT", "POST"}) {
      const auto reply = client->Do(
          {.method = method, .url = stub.url() + "/", .body = AsBytes(body), .timeout = seconds(30)});
      ASSERT_TRUE(reply.ok()) << reply.status().ToString();
      const std::string request = stub.request();
      EXPECT_THAT(request, StartsWith(std::string(method) + " / HTTP/1.1\r\n"));
      const size_t end = request.find("\r\n\r\n");
      EXPECT_TRUE(request.substr(end + 4) == body) << request.size();
      const std::string head = request.substr(0, end + 2);
      EXPECT_THAT(head, HasSubstr("\r\nContent-Length: " + std::to_string(body.size()) + "\r\n"));
      EXPECT_THAT(head, Not(HasSubstr("Content-Type")));
      EXPECT_THAT(head, Not(HasSubstr("Expect")));
    }
  }
  const std::string form = "a=1";
  ASSERT_TRUE(client
                  ->Do({.method = "POST",
                        .url = stub.url() + "/",
                        .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                        .body = AsBytes(form),
                        .timeout = seconds(30)})
                  .ok());
  EXPECT_THAT(stub.request(), HasSubstr("\r\ncontent-type: application/x-www-form-urlencoded\r\n"));
  ASSERT_TRUE(client->Do({.method = "DELETE", .url = stub.url() + "/", .timeout = seconds(30)}).ok());
  EXPECT_THAT(stub.request(), StartsWith("DELETE / "));
}

TEST(HttpClient, RepliesHaveTheirPlaceAndNoMore) {
  HttpStub stub({{"/eight", {206, "12345678"}}, {"/error", {500, "12345678"}}});
  const auto client = MakeHttpClient({.max_body = 8});
  Bytes place(8);
  const auto get = [&](const std::string& path, size_t bytes) {
    return client->Do(
        {.url = stub.url() + path, .into = std::span(place).first(bytes), .timeout = seconds(30)});
  };
  const auto whole = get("/eight", 8);
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_EQ(whole->written, 8u);
  EXPECT_EQ(AsText(place), "12345678");
  EXPECT_TRUE(whole->body.empty());
  EXPECT_EQ(get("/eight", 7).status(),
            Status(Code::kDataLoss, stub.url() + ": the reply has more than 7 bytes"));
  const auto error = get("/error", 7);
  ASSERT_TRUE(error.ok()) << error.status().ToString();
  EXPECT_EQ(AsText(error->body), "12345678");
  const auto strict = MakeHttpClient({.max_body = 7});
  EXPECT_EQ(strict->Do({.url = stub.url() + "/eight", .timeout = seconds(30), .name = "registry"}).status(),
            Status(Code::kDataLoss, "registry: the reply has more than 7 bytes"));
}

TEST(HttpClient, ErrorsNameTheHostAndTheReason) {
  std::string gone;
  {
    HttpStub stub({});
    gone = stub.url();
  }
  const auto client = MakeHttpClient({});
  const Status refused = client->Do({.url = gone + "/path?secret", .timeout = seconds(30)}).status();
  EXPECT_EQ(refused.code(), Code::kUnavailable);
  EXPECT_THAT(refused.message(), StartsWith(gone + ": "));
  EXPECT_THAT(refused.message(), Not(HasSubstr("secret")));
  EXPECT_EQ(client->Do({.url = "file:///etc/hostname", .timeout = seconds(30)}).status().code(),
            Code::kUnavailable);
}

TEST(HttpClient, DoesNotWaitForASilentServer) {
  uint16_t port = 0;
  const int silent = testing::ListenOnLoopback(&port);
  const std::string url = "http://127.0.0.1:" + std::to_string(port) + "/";
  EXPECT_EQ(MakeHttpClient({})->Do({.url = url, .timeout = milliseconds(50)}).status().code(),
            Code::kDeadlineExceeded);
  StopEvent stop;
  std::thread stopper([&] {
    std::this_thread::sleep_for(milliseconds(50));
    stop.Set();
  });
  EXPECT_EQ(MakeHttpClient({.stop = &stop})->Do({.url = url, .timeout = seconds(30)}).status().code(),
            Code::kAborted);
  stopper.join();
  close(silent);
}

}  // namespace
}  // namespace leat::net
