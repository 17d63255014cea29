#include "net/http/exchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace leat::net::http {
namespace {

using Event = RequestReader::Event;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
const std::string kChunked = "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";

class Doorkeeper final : public Handler {
 public:
  Admission Admit(const RequestHead& head, CertificateRoles) override {
    const std::string_view path = head.path(), authorization = head.Header("authorization");
    if (path == "/health") return {.body = false, .peer = Admission::Peer::kUnknown};
    if (path == "/secret" && authorization != "Bearer t") return {.refusal = Error(401, "no")};
    return {.peer = authorization.empty() ? Admission::Peer::kAnyone : Admission::Peer::kKnown};
  }
  Reply Error(int status, std::string_view why) const override {
    return {.status = status, .body = std::string(why)};
  }
  void Handle(size_t, Request, std::shared_ptr<Exchange>) override {}
};

class RequestReaderTest : public ::testing::Test {
 protected:
  RequestReaderTest() {
    options.handler = &doorkeeper;
    options.bodies = &bodies;
  }
  // Gives it the bytes, in pieces, until there is an event.
  static Event Give(RequestReader& reader, std::string_view bytes, size_t piece = 1 << 20) {
    Event event = reader.Next();
    while (event == Event::kMore && !bytes.empty()) {
      const auto space = reader.Space();
      const size_t size = std::min({space.size(), bytes.size(), piece});
      EXPECT_GT(size, 0u);
      std::copy_n(bytes.data(), size, space.data());
      reader.Commit(size);
      bytes.remove_prefix(size);
      event = reader.Next();
    }
    return event;
  }
  // "200 body" of a whole request, or status and reason of a refusal; "more": it waits for more.
  std::string Outcome(const std::string& bytes, size_t piece = 1 << 20) {
    RequestReader reader(options);
    const Event event = Give(reader, bytes, piece);
    if (event == Event::kRequest) return "200 " + reader.TakeRequest().body;
    if (event != Event::kRefused) return "more";
    EXPECT_FALSE(reader.keep_alive());
    const Reply refusal = reader.TakeRefusal();
    return std::to_string(refusal.status) + " " + refusal.body;
  }

  Doorkeeper doorkeeper;
  BodyMemory bodies;
  RequestReader::Options options;
};

TEST_F(RequestReaderTest, ReadsWhatIsThere) {
  RequestReader reader(options);
  EXPECT_TRUE(reader.idle());
  ASSERT_EQ(Give(reader,
                 "POST /a?b HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nContent-Encoding: br\r\n"
                 "Inference-Header-Content-Length: 7\r\nContent-Length: 3\r\n\r\nabcGET"),
            Event::kRequest);
  EXPECT_TRUE(reader.keep_alive());
  EXPECT_FALSE(reader.head_only());
  const Request request = reader.TakeRequest();
  EXPECT_EQ(request.head.method, "POST");
  EXPECT_EQ(request.head.path(), "/a");
  EXPECT_EQ(request.head.Header("content-type"), "text/csv");
  EXPECT_EQ(request.body, "abc");
  EXPECT_FALSE(reader.idle());
  ASSERT_EQ(Give(reader, " /b HTTP/1.0\r\n\r\n"), Event::kRequest);
  EXPECT_FALSE(reader.keep_alive());
  EXPECT_EQ(reader.TakeRequest().head.path(), "/b");
  EXPECT_TRUE(reader.idle());
  ASSERT_EQ(Give(reader, "\r\n\r\nHEAD http://other/c?d HTTP/1.1\r\nHost: x\r\n\r\n"), Event::kRequest);
  EXPECT_TRUE(reader.head_only());
  const Request head = reader.TakeRequest();
  EXPECT_EQ(head.head.method, "GET");
  EXPECT_EQ(head.head.path(), "/c");
  EXPECT_EQ(head.head.Header("content-type"), "");
}

TEST_F(RequestReaderTest, Chunks) {
  EXPECT_EQ(Outcome(kChunked + "3\r\nabc\r\n0002;x=\"y\"\r\nde\r\n0\r\nA: b\r\n\r\n"), "200 abcde");
  EXPECT_EQ(Outcome(kChunked + "a \t;x\r\n0123456789\r\n0;z\r\n\r\n"), "200 0123456789");
  EXPECT_EQ(Outcome(kChunked + "0\r\n\r\n"), "200 ");
  for (const char* bad : {"x\r\n", ";\r\n", "\r\n", "-1\r\n", "0x3\r\n", "3 x\r\nabc\r\n", "3\r\nabcd\r\n",
                          "3\r\nabc\n", "3;a\nb\r\n", "0\r\nA: b\nC\r\n\r\n", "3\n"})
    EXPECT_THAT(Outcome(kChunked + bad + "\r\n\r\n"), StartsWith("400 ")) << bad;
  for (const char* more : {"", "3", "3\r", "3\r\nab", "3\r\nabc\r", "0\r\n", "0\r\nA: b\r\n\r"})
    EXPECT_EQ(Outcome(kChunked + more), "more") << more;
}

// Extensions and trailers are ignored, and may be sent without an end.
TEST_F(RequestReaderTest, ExtensionsAndTrailersEnd) {
  const std::string many(100'000, 'a');
  for (const size_t piece : {size_t{1} << 20, size_t{777}, size_t{1}}) {
    EXPECT_THAT(Outcome(kChunked + "1;" + many, piece), StartsWith("431 "));
    EXPECT_THAT(Outcome(kChunked + "0\r\nA: " + many, piece), StartsWith("431 "));
    EXPECT_THAT(Outcome(kChunked + std::string(100'000, '0'), piece), StartsWith("431 "));
  }
  std::string chunks, trailers = "0\r\n";
  for (int i = 0; i < 1000; ++i) chunks += "1;" + std::string(90, 'a') + "\r\nx\r\n";
  for (int i = 0; i < 1000; ++i) trailers += "A: " + std::string(90, 'a') + "\r\n";
  EXPECT_THAT(Outcome(kChunked + chunks), StartsWith("431 "));
  EXPECT_THAT(Outcome(kChunked + trailers), StartsWith("431 "));
  const std::string most(options.max_extras - 1, 'a');
  EXPECT_EQ(Outcome(kChunked + "1;" + most + "\r\nx\r\n0\r\n\r\n"), "200 x");
}

TEST_F(RequestReaderTest, BodiesEnd) {
  options.max_body = 10;
  const std::string length = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: ";
  EXPECT_EQ(Outcome(length + "10\r\n\r\n0123456789"), "200 0123456789");
  EXPECT_EQ(Outcome(length + "0\r\n\r\n"), "200 ");
  EXPECT_THAT(Outcome(length + "11\r\n\r\n"), StartsWith("413 "));
  EXPECT_THAT(Outcome(length + "99999999999999999999999999\r\n\r\n"), StartsWith("413 "));
  for (const char* bad : {"", "-1", "+1", "1, 1", "0x1", "1 1", "1.0"})
    EXPECT_THAT(Outcome(length + bad + "\r\n\r\n"), StartsWith("400 ")) << bad;
  EXPECT_EQ(Outcome(kChunked + "a\r\n0123456789\r\n0\r\n\r\n"), "200 0123456789");
  EXPECT_THAT(Outcome(kChunked + "b\r\n"), StartsWith("413 "));
  EXPECT_THAT(Outcome(kChunked + "9\r\n012345678\r\n2\r\n"), StartsWith("413 "));
  EXPECT_THAT(Outcome(kChunked + "ffffffffffffffff\r\n"), StartsWith("413 "));
  EXPECT_THAT(Outcome(kChunked + "fffffffffffffffff\r\n"), StartsWith("413 "));
}

// An ambiguous end lets requests be smuggled through a proxy that reads it the other way.
TEST_F(RequestReaderTest, AnUnclearEndIsRefused) {
  const std::string post = "POST /a HTTP/1.1\r\nHost: x\r\n";
  EXPECT_THAT(Outcome(post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"), StartsWith("400 "));
  EXPECT_THAT(Outcome(post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\n"), StartsWith("400 "));
  EXPECT_THAT(Outcome("POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), StartsWith("400 "));
  for (const char* coding : {"gzip", "gzip, chunked", "chunked, gzip", "identity"})
    EXPECT_THAT(Outcome(post + "Transfer-Encoding: " + coding + "\r\n\r\n"), StartsWith("501 ")) << coding;
}

TEST_F(RequestReaderTest, HeadsEnd) {
  const std::string start = "GET / HTTP/1.1\r\nHost: x\r\nA: ", end = "\r\n\r\n";
  const size_t room = RequestReader::kBuffer - start.size() - end.size();
  for (const size_t piece : {size_t{1} << 20, size_t{1000}}) {
    EXPECT_EQ(Outcome(start + std::string(room, 'a') + end, piece), "200 ");
    EXPECT_THAT(Outcome(start + std::string(room + 1, 'a') + end, piece), StartsWith("431 "));
  }
  EXPECT_THAT(Outcome("GET /" + std::string(10'000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"),
              StartsWith("414 "));
  EXPECT_THAT(Outcome("nonsense\r\n\r\n"), StartsWith("400 "));
  EXPECT_THAT(Outcome("GET / HTTP/1.1\r\n\r\n"), StartsWith("400 "));
}

TEST_F(RequestReaderTest, HeadsAreAdmitted) {
  EXPECT_THAT(Outcome("POST /secret?a HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"),
              StartsWith("401 "));
  const std::string health = "POST /health HTTP/1.1\r\nHost: x\r\n";
  EXPECT_EQ(Outcome(health + "\r\n"), "200 ");
  EXPECT_EQ(Outcome(health + "Content-Length: 0\r\n\r\n"), "200 ");
  EXPECT_THAT(Outcome(health + "Content-Length: 1\r\n\r\n"), StartsWith("413 "));
  EXPECT_THAT(Outcome(health + "Transfer-Encoding: chunked\r\n\r\n"), StartsWith("413 "));

  RequestReader reader(options);
  EXPECT_EQ(reader.peer(), Admission::Peer::kUnknown);
  EXPECT_EQ(Give(reader,
                 "POST /secret HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Length: 3\r\n\r\n"),
            Event::kMore);
  EXPECT_EQ(reader.peer(), Admission::Peer::kKnown);
  EXPECT_EQ(Give(reader, "abc"), Event::kRequest);
  (void)reader.TakeRequest();
  EXPECT_EQ(Give(reader, kGet), Event::kRequest);
  EXPECT_EQ(reader.peer(), Admission::Peer::kAnyone);
}

TEST_F(RequestReaderTest, OtherHostsAreRefused) {
  const OwnNames names({"leat.example"});
  options.own_names = &names;
  EXPECT_EQ(Outcome("GET / HTTP/1.1\r\nHost: leat.example:80\r\n\r\n"), "200 ");
  EXPECT_EQ(Outcome("GET http://localhost/ HTTP/1.1\r\nHost: attacker.example\r\n\r\n"), "200 ");
  EXPECT_THAT(Outcome("GET http://attacker.example/ HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              StartsWith("421 "));
  EXPECT_THAT(Outcome("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://attacker.example\r\n\r\n"),
              StartsWith("403 "));
}

TEST_F(RequestReaderTest, AClientMayWaitForContinue) {
  const std::string head = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n";
  RequestReader reader(options);
  EXPECT_EQ(Give(reader, head), Event::kContinue);
  EXPECT_EQ(Give(reader, "a"), Event::kMore) << "once";
  EXPECT_EQ(Give(reader, "bc"), Event::kRequest);
  (void)reader.TakeRequest();
  EXPECT_EQ(Give(reader, head + "abc"), Event::kRequest) << "did not wait";
  EXPECT_EQ(Outcome("GET /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n"), "200 ") << "has no body";
}

// Clients that send large bodies slowly do not use all memory; small requests are not affected.
TEST_F(RequestReaderTest, BodiesOfAllConnectionsAreLimited) {
  constexpr size_t kLarge = 300'000;
  bodies.most = 1'000'000;
  const std::string head =
      "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(kLarge + 1) + "\r\n\r\n";
  std::vector<std::unique_ptr<RequestReader>> readers;
  for (int i = 0; i < 3; ++i) {
    readers.push_back(std::make_unique<RequestReader>(options));
    EXPECT_EQ(Give(*readers.back(), head + std::string(kLarge, 'a')), Event::kMore);
  }
  EXPECT_THAT(Outcome(head + std::string(kLarge, 'a')), StartsWith("503 "));
  EXPECT_EQ(bodies.used, 3 * kLarge);
  EXPECT_EQ(
      Outcome("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n" + std::string(60'000, 'a')),
      "200 " + std::string(60'000, 'a'));
  EXPECT_EQ(Give(*readers[0], "b"), Event::kRequest);
  EXPECT_EQ(readers[0]->TakeRequest().body.size(), kLarge + 1);
  readers[1].reset();
  EXPECT_EQ(bodies.used, kLarge);
  readers.clear();
  EXPECT_EQ(bodies.used, 0u);
}

}  // namespace
}  // namespace leat::net::http
