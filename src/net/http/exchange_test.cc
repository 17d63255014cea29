#include "net/http/exchange.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace leat::net {
namespace {

RequestHead Parse(const std::string& head) {
  const auto parsed = ParseHead(head);
  EXPECT_TRUE(parsed.ok()) << parsed.status().ToString();
  return parsed.ok() ? *parsed : RequestHead();
}

TEST(RequestHeadTest, ReadsRequestLineAndHeaders) {
  const std::string text =
      "GET /metrics?name=a%20b HTTP/1.1\r\nHost: example:80\r\nX-Thing:  two words \r\nx-thing: more\r\n"
      "Cookie: a=1\r\nCookie: b=2\r\nEmpty:\r\n\r\n";
  const RequestHead head = Parse(text);
  EXPECT_EQ(head.method, "GET");
  EXPECT_EQ(head.target, "/metrics?name=a%20b");
  EXPECT_FALSE(head.http_1_0);
  EXPECT_EQ(head.Header("host"), "example:80");
  EXPECT_EQ(head.Header("x-thing"), "two words, more");
  EXPECT_EQ(head.Header("cookie"), "a=1; b=2");
  EXPECT_EQ(head.Header("empty"), "");
  EXPECT_EQ(head.Header("missing"), "");
  EXPECT_FALSE(head.has_body());
}

TEST(RequestHeadTest, KnowsWhetherTheConnectionStays) {
  EXPECT_TRUE(Parse("GET / HTTP/1.1\r\nHost: a\r\n\r\n").keep_alive());
  EXPECT_FALSE(Parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, Close\r\n\r\n").keep_alive());
  EXPECT_FALSE(
      Parse("GET / HTTP/1.1\r\nHost: a\r\nConnection: TE\r\nConnection: close\r\n\r\n").keep_alive());
  EXPECT_FALSE(Parse("GET / HTTP/1.0\r\n\r\n").keep_alive());
  EXPECT_TRUE(Parse("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive());
}

TEST(RequestHeadTest, AnAbsoluteTargetNamesTheHost) {
  const auto parsed = [](const std::string& target) {
    const RequestHead head = Parse("GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n");
    return std::pair(head.target, std::string(head.Header("host")));
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(parsed("/x"), Pair("/x", "a"));
  EXPECT_EQ(parsed("http://other:80/x?y=z"), Pair("/x?y=z", "other:80"));
  EXPECT_EQ(parsed("HTTPS://other"), Pair("/", "other"));
  EXPECT_EQ(parsed("http://other?y"), Pair("/?y", "other"));
  EXPECT_EQ(parsed("http://[::1]:80/a://b"), Pair("/a://b", "[::1]:80"));
  EXPECT_EQ(parsed("/http://other/"), Pair("/http://other/", "a"));
  EXPECT_EQ(Parse("GET http://other/ HTTP/1.0\r\n\r\n").Header("host"), "other");
  EXPECT_EQ(Parse("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").path(), "*");
  EXPECT_EQ(Parse("GET /a?b?c HTTP/1.1\r\nHost: a\r\n\r\n").path(), "/a");
}

TEST(RequestHeadTest, KnowsABody) {
  EXPECT_TRUE(Parse("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n").has_body());
  EXPECT_TRUE(Parse("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").has_body());
  EXPECT_FALSE(Parse("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").has_body());
  EXPECT_FALSE(Parse("POST / HTTP/1.1\r\nHost: a\r\n\r\n").has_body());
}

TEST(RequestHeadTest, ReadsWeightsOfEncodings) {
  const auto accepts = [](const std::string& list) {
    return Parse("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: " + list + "\r\n\r\n").accepts_gzip();
  };
  EXPECT_TRUE(accepts("gzip"));
  EXPECT_TRUE(accepts("br, GZIP;q=0.5"));
  EXPECT_FALSE(accepts("gzip;q=0"));
  EXPECT_FALSE(accepts("gzip; q=0.00, br"));
  EXPECT_FALSE(accepts("br"));
  EXPECT_FALSE(accepts(""));
}

TEST(RequestHeadTest, RefusesWhatIsNoRequest) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "no end"},
      {"GET / HTTP/1.1\r\n", "no end"},
      {"\r\n\r\n", "no method"},
      {"GET / HTTP/2\r\nHost: a\r\n\r\n", "not HTTP/1.1"},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", "not HTTP/1.1"},
      {"GET\r\n\r\n", "not HTTP/1.1"},
      {"G T / HTTP/1.1\r\nHost: a\r\n\r\n", "not HTTP/1.1"},
      {"GET ftp://other/ HTTP/1.1\r\nHost: a\r\n\r\n", "the target is no path"},
      {"GET http:///metrics HTTP/1.1\r\nHost: a\r\n\r\n", "the target is no path"},
      {"GET http://oth\x01"
       "er/ HTTP/1.1\r\nHost: a\r\n\r\n",
       "the target is no path"},
      {"GET http://a@other/ HTTP/1.1\r\nHost: a\r\n\r\n", "the target is no path"},
      {"GET http://other/ HTTP/1.1\r\n\r\n", "no header host"},
      {"GET other/ HTTP/1.1\r\nHost: a\r\n\r\n", "the target is no path"},
      {"CONNECT other:443 HTTP/1.1\r\nHost: a\r\n\r\n", "the target is no path"},
      {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", "the target is no path"},
      {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "the target is no path"},
      {"GET / HTTP/1.1\r\n\r\n", "no header host"},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "two headers host"},
      {"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\ncontent-length: 5\r\n\r\n",
       "two headers content-length"},
      {"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", "a line is no header"},
      {"GET / HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n", "a header has no name"},
      {"GET / HTTP/1.1\r\nHost : a\r\n\r\n", "a header has no name"},
      {"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", "a header with a control character"},
      {std::string("GET / HTTP/1.1\r\nHost: a") + '\0' + "\r\n\r\n", "a header with a control character"},
  };
  for (const auto& [text, why] : bad) EXPECT_EQ(ParseHead(text).status().message(), "bad request: " + why);
}

TEST(RequestHeadTest, TokensOfBearers) {
  const auto token = [](const std::string& given) {
    return std::string(RequestHead{.headers = {{"authorization", given}}}.BearerToken());
  };
  EXPECT_EQ(token("Bearer a-token"), "a-token");
  EXPECT_EQ(token("bEARER  a-token "), "a-token");
  for (const char* none : {"", "Bearer", "Bearer ", "a-token", "Basic a-token", "Bearera-token"})
    EXPECT_EQ(token(none), "") << none;
  EXPECT_EQ(RequestHead().BearerToken(), "");
}

TEST(RequestHeadTest, QueriesAndPercentSigns) {
  EXPECT_EQ(RequestHead{.target = "/a?b?c"}.query(), "b?c");
  EXPECT_EQ(RequestHead{.target = "/a?"}.query(), "");
  EXPECT_EQ(RequestHead{.target = "/a"}.query(), "");
  const RequestHead head{.target = "/a?x&&name=a%26b%20c+d&name=e&=f"};
  EXPECT_EQ(head.QueryValue("name"), "a&b c d");
  EXPECT_EQ(head.QueryValue("x"), "");
  EXPECT_EQ(head.QueryValue("y"), std::nullopt);
  EXPECT_EQ(DecodePercent("%41b%2f%2F"), "Ab//");
  for (const char* bad : {"%", "%4", "%4g", "a%%41", "%+1", "%-1", "% 1"})
    EXPECT_FALSE(DecodePercent(bad)) << bad;
}

}  // namespace
}  // namespace leat::net
