// Certificates for tests.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/testing.h"
#include "net/security/certificate.h"
#include "net/tls/tls_identity.h"

namespace leat::net::testing {

// An authority with the certificates that a test asks for.
class TestAuthority {
 public:
  TestAuthority() { EXPECT_TRUE(CreateAuthority(path("ca")).ok()); }

  std::filesystem::path path(const std::string& name) const {
    return std::filesystem::path(folder_.path()) / name;
  }
  // A folder with a new certificate.
  std::filesystem::path Issue(std::vector<std::string> roles, std::vector<std::string> hosts = {"127.0.0.1"},
                              int valid_days = 1) {
    const auto folder = path("issued-" + std::to_string(++issued_));
    const CertificateRequest request{
        .roles = std::move(roles), .hosts = std::move(hosts), .valid = std::chrono::hours(24) * valid_days};
    const Status status = IssueCertificate(path("ca"), folder, request);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return folder;
  }
  std::shared_ptr<TlsIdentity> Identity(std::vector<std::string> roles,
                                        std::vector<std::string> hosts = {"127.0.0.1"}) {
    auto identity = TlsIdentity::Load(Issue(std::move(roles), std::move(hosts)));
    EXPECT_TRUE(identity.ok()) << identity.status().ToString();
    return std::move(*identity);
  }

 private:
  const TempDir folder_;
  int issued_ = 0;
};

// For tests of transports: the same for all, with the roles of all ports.
inline const std::shared_ptr<TlsIdentity>& AnyRole() {
  static TestAuthority authority;
  static const std::shared_ptr<TlsIdentity> identity =
      authority.Identity({"coordinator", "server", "worker", "bots", "admin"});
  return identity;
}

}  // namespace leat::net::testing
