// A private certificate authority for the roles of jobs, and certificates that name their roles. Files are
// PEM, keys are P-256. Thread-safe.
//
// An authority is a folder with ca.pem and ca-key.pem. A role's folder, the DIR of --security, has ca.pem,
// cert.pem and key.pem. A certificate names its roles as URIs ("leat:role:worker") and its hosts as DNS names
// and IP addresses, all in the subject alternative name.
//
// A folder appears complete or not at all. An existing folder that is not empty stays as it is.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/security/certificate_roles.h"

namespace leat::net {

// Creates an authority in a new folder. Returns kFailedPrecondition if the folder has files already.
Status CreateAuthority(const std::filesystem::path& folder, int valid_days = 3650);

struct CertificateRequest {
  std::vector<std::string> roles;
  std::vector<std::string> hosts;  // names, wildcard names ("*.leat.example") or addresses; may be empty
  std::chrono::seconds valid = std::chrono::hours(24 * 365);
};

// Issues a certificate with a new key into a new folder, which becomes a role's folder. Returns
// kInvalidArgument for an unknown role or a host that is neither a name nor an address, and
// kFailedPrecondition if the folder has files already.
Status IssueCertificate(const std::filesystem::path& authority, const std::filesystem::path& folder,
                        const CertificateRequest& request);

// When half of a certificate's life is over, in seconds since 1970: it is time to issue the next one.
// kInvalidArgument if the text is no certificate in PEM.
Result<int64_t> RenewalTime(std::string_view certificate);

// A role's folder, as read and checked.
struct CertificateFolder {
  std::string ca, certificate, key;  // PEM
  CertificateRoles roles;            // roles that the certificate names
};

// Reads and checks a role's folder. The errors name the file: kPermissionDenied for a key that other users
// can read, kInvalidArgument for a file that is no PEM, a key of another certificate, a certificate of
// another authority, or one that has expired or names no role.
Result<CertificateFolder> ReadCertificateFolder(const std::filesystem::path& folder);

}  // namespace leat::net
