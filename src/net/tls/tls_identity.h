// A certificate and its key, from which TLS connections begin: of a role (net/security/certificate.h), or for
// clients that show none.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "net/security/certificate_roles.h"
#include "net/tls/tls_session.h"

struct ssl_ctx_st;

namespace leat::net {

// Thread-safe.
class TlsIdentity {
 public:
  // Errors name the file, as those of ReadCertificateFolder.
  static Result<std::shared_ptr<TlsIdentity>> Load(const std::filesystem::path& folder);
  // The certificate of any authority, with its chain, and its key, in PEM. It verifies no peer.
  static Result<std::shared_ptr<TlsIdentity>> Load(std::string certificate, std::string key);
  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  // The roles of the certificate when it was loaded.
  CertificateRoles roles() const { return roles_; }

  // Whether the certificate names this host: a name, also by a wildcard, or an IP address.
  bool IsFor(const std::string& host);

  // Begins TLS on a connected, non-blocking socket, which outlives the session. If the files have changed,
  // they are read first. Files that are refused (a certificate whose key is not there yet) are a line in the
  // log, and the former ones stay in use.
  std::unique_ptr<TlsSession> Begin(int fd, TlsSession::Options options, std::shared_ptr<TlsBuffers> buffers);

 private:
  static Result<std::shared_ptr<TlsIdentity>> Load(std::shared_ptr<TlsIdentity> identity);
  TlsIdentity(std::filesystem::path folder, std::string certificate, std::string key)
      : folder_(std::move(folder)), certificate_(std::move(certificate)), key_(std::move(key)) {}
  std::string Stamp() const;
  Status Read();

  const std::filesystem::path folder_;  // empty: two files, and no authority
  const std::string certificate_, key_;
  CertificateRoles roles_;
  std::mutex mutex_;
  std::string stamp_;              // stamp of the files that were read last, whether they were good or not
  ssl_ctx_st* context_ = nullptr;  // owned
};

}  // namespace leat::net
