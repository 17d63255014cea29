#include "observe/http/access.h"

#include <gtest/gtest.h>

#include <string>

#include "net/tls/testing.h"
#include "observe/http/view_token.h"

namespace leat::observe {
namespace {

using net::CertificateRole;
using net::RequestHead;

const std::string kAccessToken = ViewToken("token");

Access MakeAccess() {
  return Access({.view_token = kAccessToken,
                 .address = "listen.example:9464",
                 .hosts = {"leat.example"},
                 .port = 9464});
}

RequestHead From(const std::string& host, const std::string& origin = "") {
  RequestHead head{.method = "GET", .target = "/", .headers = {{"host", host}}};
  if (!origin.empty()) head.headers["origin"] = origin;
  return head;
}

// The rest is in net/http/own_names_test.cc.
TEST(AccessTest, OtherHostsAndOriginsAreRefused) {
  EXPECT_FALSE(MakeAccess().Check(From("leat.example:9464")));
  EXPECT_FALSE(MakeAccess().Check(From("listen.example:9464")));
  EXPECT_EQ(MakeAccess().Check(From("attacker.example"))->status, 421);
  EXPECT_EQ(MakeAccess().Check(From("127.0.0.1:9464", "http://attacker.example"))->status, 403);
}

TEST(AccessTest, TheViewTokenAuthorises) {
  const Access access = MakeAccess();
  const auto with = [&](const std::string& name, const std::string& value) {
    return access.Authorised({.headers = {{name, value}}}, {});
  };
  EXPECT_TRUE(with("authorization", "Bearer " + kAccessToken));
  EXPECT_TRUE(with("authorization", "bearer " + kAccessToken));
  EXPECT_FALSE(with("authorization", "Bearer " + kAccessToken + "0"));
  EXPECT_FALSE(with("authorization", "Bearer "));
  EXPECT_FALSE(with("authorization", "Basic " + kAccessToken));
  EXPECT_FALSE(with("authorization", kAccessToken));
  EXPECT_FALSE(with("authorization", "Bearer token"));  // the job's own is not sent around
  EXPECT_TRUE(with("cookie", "leat-view-9464=" + kAccessToken));
  EXPECT_TRUE(with("cookie", "a=b; leat-view-9464=" + kAccessToken + "; c=d"));
  EXPECT_FALSE(with("cookie", "leat-view-9465=" + kAccessToken));
  EXPECT_FALSE(with("cookie", "xleat-view-9464=" + kAccessToken));
  EXPECT_FALSE(with("cookie", "leat-view-9464="));
  EXPECT_FALSE(access.Authorised({}, {}));
  // A wrong token is not made good by a cookie.
  EXPECT_FALSE(access.Authorised(
      {.headers = {{"authorization", "Bearer wrong"}, {"cookie", "leat-view-9464=" + kAccessToken}}}, {}));
}

TEST(AccessTest, AnObserversCertificateAuthorises) {
  EXPECT_TRUE(MakeAccess().Authorised({}, {CertificateRole::kObserver}));
  EXPECT_FALSE(MakeAccess().Authorised({}, {CertificateRole::kWorker, CertificateRole::kAdmin}));
}

TEST(AccessTest, TheCookieIsForThisListenerAlone) {
  EXPECT_EQ(MakeAccess().SetCookie(),
            "leat-view-9464=" + kAccessToken + "; Path=/; HttpOnly; SameSite=Strict");
}

TEST(AccessTest, NamesOfTheCertificateAreKnown) {
  net::testing::TestAuthority authority;
  const Access access({.view_token = kAccessToken,
                       .tls = authority.Identity({"coordinator"}, {"c.example", "*.leat.example"}),
                       .port = 9464});
  EXPECT_FALSE(access.Check(From("c.example:9464")));
  EXPECT_FALSE(access.Check(From("worker-1.leat.example")));
  EXPECT_TRUE(access.Check(From("leat.example")));
  EXPECT_TRUE(access.Check(From("d.example")));
  EXPECT_TRUE(access.SetCookie().ends_with("; Secure"));
}

}  // namespace
}  // namespace leat::observe
