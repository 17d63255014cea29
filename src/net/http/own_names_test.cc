#include "net/http/exchange.h"

#include <gtest/gtest.h>

#include <string>

#include "net/address.h"

namespace leat::net {
namespace {

RequestHead CallTo(const std::string& host, const std::string& origin = "") {
  RequestHead head{.method = "GET", .target = "/", .headers = {{"host", host}}};
  if (!origin.empty()) head.headers["origin"] = origin;
  return head;
}

int StatusFor(const RequestHead& head) {
  static const OwnNames names({"leat.example"}, "serve.example:8000");
  const auto refusal = names.Check(head);
  return refusal ? refusal->status : 200;
}

TEST(OwnNamesTest, KnowsItsNames) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:9464", "10.1.2.3:80", "[::1]:9464", "[::1]", "localhost:1",
                           "Localhost", "leat.example:9464", "LEAT.example", "serve.example:8000"})
    EXPECT_EQ(StatusFor(CallTo(host)), 200) << host;
  const std::string own = HostName();
  EXPECT_TRUE(own.empty() || StatusFor(CallTo(own + ":80")) == 200) << own;
  for (const char* host : {"", "attacker.example", "leat.example.attacker.example", "xleat.example",
                           "127.0.0.1.attacker.example", "[leat]", "["})
    EXPECT_EQ(StatusFor(CallTo(host)), 421) << host;
}

TEST(OwnNamesTest, HttpOneDotZeroNeedsNoHost) {
  EXPECT_EQ(StatusFor({.method = "GET", .target = "/", .http_1_0 = true}), 200);
  RequestHead named = CallTo("attacker.example");
  named.http_1_0 = true;
  EXPECT_EQ(StatusFor(named), 421);
}

TEST(OwnNamesTest, OtherOriginsAreRefused) {
  EXPECT_EQ(StatusFor(CallTo("127.0.0.1:9464", "http://127.0.0.1:9464")), 200);
  EXPECT_EQ(StatusFor(CallTo("leat.example:9464", "https://LEAT.example:9464")), 200);
  for (const char* origin : {"http://127.0.0.1:80", "http://localhost:9464", "http://attacker.example",
                             "null", "127.0.0.1:9464", "file://127.0.0.1:9464"})
    EXPECT_EQ(StatusFor(CallTo("127.0.0.1:9464", origin)), 403) << origin;
}

}  // namespace
}  // namespace leat::net
