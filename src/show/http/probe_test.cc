
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "net/tls/testing.h"
#include "show/http/listener.h"

namespace leat::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

HttpRoute Open(const std::string& path, int status, const std::string& body) {
  return {.path = path, .access = HttpRoute::Access::kEveryone, .handler = [=](const Request&) {
            return Reply{.status = status, .type = kText, .body = body};
          }};
}

std::unique_ptr<HttpListener> Listen(HttpListener::Options options = {}) {
  options.view_token = ViewToken("token");
  auto started = HttpListener::Start(
      std::move(options),
      {Open("/healthz", 200, "ok\n"), Open("/readyz", 503, "no \x1b worker\nand more\n")});
  EXPECT_TRUE(started.ok()) << started.status().ToString();
  return std::move(*started);
}

TEST(Probe, ReturnsWhatTheRoleSays) {
  const auto listener = Listen();
  EXPECT_TRUE(Probe({.address = listener->address()}).ok());
  const Status ready = Probe({.address = listener->address(), .path = "/readyz"});
  EXPECT_EQ(ready.code(), Code::kFailedPrecondition);
  EXPECT_THAT(ready.message(), HasSubstr(listener->address() + "/readyz: status 503: no   worker"));
  EXPECT_THAT(ready.message(), Not(HasSubstr("more")));
  EXPECT_EQ(Probe({.address = listener->address(), .path = "/metrics"}).code(), Code::kFailedPrecondition);
}

TEST(Probe, AsksAWildcardOnLoopback) {
  const auto listener = Listen({.address = "0.0.0.0:0"});
  const std::string& address = listener->address();
  EXPECT_TRUE(Probe({.address = "0.0.0.0" + address.substr(address.rfind(':'))}).ok());
}

TEST(Probe, SpeaksTls) {
  net::testing::TestAuthority authority;
  const auto listener = Listen({.tls = authority.Identity({"worker"}, {})});
  EXPECT_TRUE(Probe({.address = listener->address(), .tls = true}).ok());
  EXPECT_FALSE(Probe({.address = listener->address()}).ok());
}

TEST(Probe, NobodyAnswers) {
  std::string address;
  {
    const auto listener = Listen();
    address = listener->address();
  }
  const Status gone = Probe({.address = address});
  EXPECT_EQ(gone.code(), Code::kUnavailable);
  EXPECT_THAT(gone.message(), HasSubstr(address + " does not answer"));
  for (const char* none : {"", "nowhere", "127.0.0.1:0", "127.0.0.1:65536"})
    EXPECT_EQ(Probe({.address = none}).code(), Code::kInvalidArgument) << none;
}

}  // namespace
}  // namespace leat::observe
