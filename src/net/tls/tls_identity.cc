#include "net/tls/tls_identity.h"

#include <openssl/err.h>

#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "net/security/certificate.h"
#include "net/security/openssl.h"
#include "net/security/private_file.h"

namespace leat::net {
namespace {

// A chain of one certificate and its authority, with room for one that is not Leat's own.
constexpr long kMaxCertificateBytes = 16 << 10;

// Null: OpenSSL refuses the certificate or the key. `ca`: null of an identity that verifies no peer.
openssl::Context MakeTlsContext(X509* ca, const openssl::Chain& chain, EVP_PKEY* key) {
  openssl::Context context(SSL_CTX_new(TLS_method()));
  SSL_CTX* const to = context.get();
  LEAT_CHECK(to != nullptr);
  LEAT_CHECK(SSL_CTX_set_min_proto_version(to, TLS1_3_VERSION) == 1);
  // The shorter key is the faster one. ChaCha20 is missing: it is slower wherever AES has instructions.
  LEAT_CHECK(SSL_CTX_set_ciphersuites(to, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384") == 1);
  LEAT_CHECK(SSL_CTX_set1_groups_list(to, "X25519:P-256") == 1);
  // No resumption: each connection proves the certificates again, so that a rotation takes effect.
  SSL_CTX_set_session_cache_mode(to, SSL_SESS_CACHE_OFF);
  LEAT_CHECK(SSL_CTX_set_num_tickets(to, 0) == 1);
  // Frames and gRPC's messages have lengths, so a missing end is noticed without close_notify.
  SSL_CTX_set_options(
      to, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  // Peers have the authority's certificate. Otherwise OpenSSL would verify and send it in each handshake.
  SSL_CTX_set_mode(to, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_NO_AUTO_CHAIN);
  SSL_CTX_set_max_cert_list(to, kMaxCertificateBytes);
  SSL_CTX_set_verify_depth(to, 1);
  TlsSession::Prepare(to);
  if (ca != nullptr) LEAT_CHECK(X509_STORE_add_cert(SSL_CTX_get_cert_store(to), ca) == 1);
  bool usable = SSL_CTX_use_certificate(to, chain[0].get()) == 1 && SSL_CTX_use_PrivateKey(to, key) == 1;
  for (size_t i = 1; i < chain.size(); ++i)
    usable = usable && SSL_CTX_add1_chain_cert(to, chain[i].get()) == 1;
  ERR_clear_error();
  return usable ? std::move(context) : nullptr;
}

}  // namespace

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::Load(std::shared_ptr<TlsIdentity> identity) {
  identity->stamp_ = identity->Stamp();
  LEAT_RETURN_IF_ERROR(identity->Read());
  return identity;
}

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::Load(const std::filesystem::path& folder) {
  return Load(std::shared_ptr<TlsIdentity>(new TlsIdentity(folder, folder / "cert.pem", folder / "key.pem")));
}

Result<std::shared_ptr<TlsIdentity>> TlsIdentity::Load(std::string certificate, std::string key) {
  return Load(std::shared_ptr<TlsIdentity>(new TlsIdentity({}, std::move(certificate), std::move(key))));
}

TlsIdentity::~TlsIdentity() {
  SSL_CTX_free(context_);
}

std::string TlsIdentity::Stamp() const {
  return FileStamp(folder_ / "ca.pem") + " " + FileStamp(certificate_) + " " + FileStamp(key_);
}

Status TlsIdentity::Read() {
  CertificateFolder files;
  if (!folder_.empty()) {
    LEAT_ASSIGN_OR_RETURN(files, ReadCertificateFolder(folder_));
  } else {
    LEAT_ASSIGN_OR_RETURN(files.certificate, ReadPublicFile(certificate_));
    LEAT_ASSIGN_OR_RETURN(files.key, ReadPrivateFile(key_));
  }
  const openssl::Chain chain = openssl::ParseChain(files.certificate);
  if (chain.empty()) return {Code::kInvalidArgument, certificate_ + ": not a certificate in PEM"};
  const openssl::Key key = openssl::ParseKey(files.key);
  if (key == nullptr) return {Code::kInvalidArgument, key_ + ": not a key without a password in PEM"};
  openssl::Context context = MakeTlsContext(openssl::ParseCertificate(files.ca).get(), chain, key.get());
  if (context == nullptr)
    return {Code::kInvalidArgument, key_ + ": not the key of " + certificate_ + ", or OpenSSL refuses them"};
  SSL_CTX_free(std::exchange(context_, context.release()));
  roles_ = files.roles;
  return {};
}

bool TlsIdentity::IsFor(const std::string& host) {
  std::lock_guard lock(mutex_);
  X509* const certificate = SSL_CTX_get0_certificate(context_);
  return X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1 ||
         X509_check_ip_asc(certificate, host.c_str(), 0) == 1;
}

std::unique_ptr<TlsSession> TlsIdentity::Begin(int fd, TlsSession::Options options,
                                               std::shared_ptr<TlsBuffers> buffers) {
  std::lock_guard lock(mutex_);
  if (std::string stamp = Stamp(); stamp != stamp_) {
    stamp_ = std::move(stamp);
    if (const Status status = Read(); status.ok()) {
      spdlog::info("new connections use the changed certificate {}", certificate_);
    } else {
      spdlog::warn("{}; connections use the former certificate", status.message());
    }
  }
  return std::make_unique<TlsSession>(context_, fd, std::move(options), std::move(buffers));
}

}  // namespace leat::net
