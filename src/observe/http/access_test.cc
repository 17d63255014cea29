#include "observe/http/access.h"

#include <gtest/gtest.h>

#include <string>

#include "net/tls/testing.h"
#include "observe/http/view_token.h"

namespace leat::observe {
namespace {

using net::CertificateRole;

const std::string kAccessToken = ViewToken("token");

Access MakeAccess() {
  return Access({.view_token = kAccessToken, .hosts = {"leat.example"}, .port = 9464});
}

RequestHead From(const std::string& host, const std::string& origin = "") {
  RequestHead head{.method = "GET", .target = "/", .headers = {{"host", host}}};
  if (!origin.empty()) head.headers["origin"] = origin;
  return head;
}

int StatusFor(const RequestHead& head) {
  const auto refusal = MakeAccess().Check(head);
  return refusal ? refusal->status : 200;
}

TEST(AccessTest, KnowsItsNames) {
  for (const char* host : {"127.0.0.1", "127.0.0.1:9464", "10.1.2.3:80", "[::1]:9464", "[::1]", "localhost:1",
                           "Localhost", "leat.example:9464", "LEAT.example"})
    EXPECT_EQ(StatusFor(From(host)), 200) << host;
  for (const char* host : {"", "attacker.example", "leat.example.attacker.example", "xleat.example",
                           "127.0.0.1.attacker.example", "[leat]", "["})
    EXPECT_EQ(StatusFor(From(host)), 421) << host;
}

TEST(AccessTest, HttpOneDotZeroNeedsNoHost) {
  EXPECT_EQ(StatusFor({.method = "GET", .target = "/", .http_1_0 = true}), 200);
  RequestHead named = From("attacker.example");
  named.http_1_0 = true;
  EXPECT_EQ(StatusFor(named), 421);
}

TEST(AccessTest, OtherOriginsAreRefused) {
  EXPECT_EQ(StatusFor(From("127.0.0.1:9464", "http://127.0.0.1:9464")), 200);
  EXPECT_EQ(StatusFor(From("leat.example:9464", "https://LEAT.example:9464")), 200);
  for (const char* origin : {"http://127.0.0.1:80", "http://localhost:9464", "http://attacker.example",
                             "null", "127.0.0.1:9464", "file://127.0.0.1:9464"})
    EXPECT_EQ(StatusFor(From("127.0.0.1:9464", origin)), 403) << origin;
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
