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
  EXPECT_EQ(parsed->port, 80);
  EXPECT_EQ(ParseAddress("ps-0.cluster:0")->host, "ps-0.cluster");
  for (const char* wrong : {"", "host", ":80", "host:", "host:65536", "host:-1", "host:80x", "::1:80",
                            "[]:80", "[:80", "[::1:80", "[host]:80", "http://x:80", "a b:80"}) {
    const Status status = ParseAddress(wrong).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << wrong;
    EXPECT_NE(status.message().find("'" + std::string(wrong) + "'"), std::string::npos) << status.message();
  }
}

TEST(Address, ReadsAsItWasWritten) {
  for (const char* address : {"127.0.0.1:80", "[::1]:80", "leat.example:0"}) {
    EXPECT_EQ(ParseAddress(address)->ToString(), address);
  }
  EXPECT_EQ(ParseAddress("localhost:80")->ToString(), "127.0.0.1:80");
}

TEST(Address, WhatIsAdvertised) {
  const std::string listening = "0.0.0.0:4000";
  EXPECT_EQ(*AdvertisedAddress("", listening), listening);
  EXPECT_EQ(*AdvertisedAddress("10.0.0.5", listening), "10.0.0.5:4000");
  EXPECT_EQ(*AdvertisedAddress("10.0.0.5:80", listening), "10.0.0.5:80");
  EXPECT_EQ(*AdvertisedAddress("ps-0.cluster", listening), "ps-0.cluster:4000");
  EXPECT_EQ(*AdvertisedAddress("[2001:db8::1]", "[::]:4000"), "[2001:db8::1]:4000");
  EXPECT_EQ(*AdvertisedAddress("[2001:db8::1]:80", listening), "[2001:db8::1]:80");
  for (const char* wrong : {"0.0.0.0", "0.0.0.0:80", "[::]", "[::]:80", "10.0.0.5:0", "2001:db8::1", ":80",
                            "10.0.0.5:", "a/b", "[10.0.0.5]"}) {
    const Status status = AdvertisedAddress(wrong, listening).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << wrong;
    EXPECT_NE(status.message().find(wrong), std::string::npos) << status.message();
  }
}

TEST(Address, TheLocalHostOnTheWay) {
  EXPECT_EQ(LocalHostTowards("127.0.0.1:80"), "127.0.0.1");
  EXPECT_EQ(LocalHostTowards("localhost:80"), "127.0.0.1");
  EXPECT_EQ(LocalHostTowards("not an address"), "");
}

TEST(Address, ANetworkHasOneId) {
  EXPECT_NE(NetworkId(), 0u);
  EXPECT_EQ(NetworkId(), NetworkId());
}

}  // namespace
}  // namespace leat::net
