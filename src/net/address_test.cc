#include "net/address.h"

#include <gtest/gtest.h>

namespace leat::net {
namespace {

TEST(Address, TheHostIsWhatStandsBeforeThePort) {
  EXPECT_EQ(HostOf("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(HostOf("ps-0.cluster:8000"), "ps-0.cluster");
  EXPECT_EQ(HostOf("[::1]:80"), "[::1]");
  EXPECT_NE(HostOf("[::1]:80"), HostOf("[::2]:80"));
}

TEST(Address, IsAHostAndAPort) {
  const auto parsed = ParseAddress("[::1]:80");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  EXPECT_EQ(parsed->host, "::1");
  EXPECT_EQ(parsed->port, "80");
  EXPECT_EQ(ParseAddress("ps-0.cluster:0")->host, "ps-0.cluster");
  for (const char* wrong :
       {"", "host", ":80", "host:", "host:65536", "host:-1", "host:80x", "::1:80", "[]:80", "[:80"}) {
    EXPECT_EQ(ParseAddress(wrong).status().code(), Code::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace leat::net
