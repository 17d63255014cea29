// Tests which requests come from a viewer.
#include "show/http/listener.h"

#include <gtest/gtest.h>

#include <string>

namespace leat::observe {

namespace {

using net::CertificateRole;

const std::string kAccessToken = ViewToken("token");

// A fixture with the viewers of a listener at port 9464.
class AccessTest : public ::testing::Test {
 protected:
  AccessTest() { viewers.OnListening("127.0.0.1:9464"); }
  bool Authorised(const net::RequestHead& head, net::CertificateRoles roles = {}) {
    return viewers.Admit(head, roles).peer == net::http::Admission::Peer::kKnown;
  }
  Viewers viewers{{}, kAccessToken, false, 1};
};

TEST_F(AccessTest, TheViewTokenAuthorises) {
  const auto with = [&](const std::string& name, const std::string& value) {
    return Authorised({.headers = {{name, value}}});
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
  EXPECT_TRUE(with("cookie", "leat-view-9464; leat-view-9464=" + kAccessToken));
  EXPECT_FALSE(with("cookie", "leat-view-9465=" + kAccessToken));
  EXPECT_FALSE(with("cookie", "xleat-view-9464=" + kAccessToken));
  EXPECT_FALSE(with("cookie", "leat-view-9464="));
  EXPECT_FALSE(Authorised({}, {}));
  // A wrong token is not made good by a cookie.
  EXPECT_FALSE(Authorised(
      {.headers = {{"authorization", "Bearer wrong"}, {"cookie", "leat-view-9464=" + kAccessToken}}}, {}));
}

TEST_F(AccessTest, AnObserversCertificateAuthorises) {
  EXPECT_TRUE(Authorised({}, {CertificateRole::kObserver}));
  EXPECT_FALSE(Authorised({}, {CertificateRole::kWorker, CertificateRole::kAdmin}));
}

TEST_F(AccessTest, TheCookieIsForThisListenerAlone) {
  EXPECT_EQ(viewers.SetCookie(), "leat-view-9464=" + kAccessToken + "; Path=/; HttpOnly; SameSite=Strict");
  Viewers secure({}, kAccessToken, true, 1);
  secure.OnListening("127.0.0.1:9464");
  EXPECT_TRUE(secure.SetCookie().ends_with("; Secure"));
}

}  // namespace

namespace {

// printf 'leat view token 1' | openssl dgst -sha256 -hmac secret
TEST(ViewTokenTest, IsAnHmacOfTheToken) {
  EXPECT_EQ(ViewToken("secret"), "92e8e08f2a708c556ae9b826630b1bad5965c67a0bb247605afe6870612f54da");
  EXPECT_NE(ViewToken("secret"), ViewToken("Secret"));
}

TEST(ViewTokenTest, SecretsAreTheSameOnlyIfAllIsEqual) {
  EXPECT_TRUE(SameSecret("abc", "abc"));
  EXPECT_FALSE(SameSecret("abc", "abd"));
  EXPECT_FALSE(SameSecret("abc", "ab"));
  EXPECT_FALSE(SameSecret("", "a"));
}

}  // namespace

}  // namespace leat::observe
