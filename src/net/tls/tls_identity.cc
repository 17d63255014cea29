#include "net/tls/tls_identity.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "net/security/certificate.h"
#include "net/security/openssl.h"
#include "net/security/private_file.h"

namespace leat::net {
namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr size_t kRecordOverhead = 5 + 1 + 16;  // header, type and tag
// Per system call: large enough that the call costs little beside the cipher, small enough for the cache.
constexpr size_t kSessionCallBytes = 128 << 10;
constexpr std::string_view kExportLabel = "EXPORTER-leat-handshake";

}  // namespace

struct TlsSession::Callbacks {
  static TlsSession& Of(BIO* bio) { return *static_cast<TlsSession*>(BIO_get_data(bio)); }

  static int Write(BIO* bio, const char* data, int size) {
    Bytes& out = Of(bio).buffers_->out;
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    out.insert(out.end(), begin, begin + size);
    return size;
  }
  static int Read(BIO* bio, char* data, int size) {
    ByteView& unread = Of(bio).unread_;
    BIO_clear_retry_flags(bio);
    if (unread.empty()) {
      BIO_set_retry_read(bio);
      return -1;
    }
    const size_t taken = std::min(unread.size(), static_cast<size_t>(size));
    std::memcpy(data, unread.data(), taken);
    unread = unread.subspan(taken);
    return static_cast<int>(taken);
  }
  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO* MakeBio(TlsSession* session) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "leat tls");
      BIO_meth_set_write(made, Write);
      BIO_meth_set_read(made, Read);
      BIO_meth_set_ctrl(made, Control);
      return made;
    }();
    BIO* const bio = BIO_new(method);
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    return bio;
  }

  // Tells the peer whose certificates are meant: a browser that has none of them then asks its user nothing.
  static void NameAuthority(SSL_CTX* context, SSL* ssl) {
    const STACK_OF(X509_OBJECT)* known = X509_STORE_get0_objects(SSL_CTX_get_cert_store(context));
    for (int i = 0; i < sk_X509_OBJECT_num(known); ++i) {
      X509* const authority = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(known, i));
      if (authority != nullptr) LEAT_CHECK(SSL_add_client_CA(ssl, authority) == 1);
    }
  }

  // Peers that name protocols, and not this session's, are told none: some go on without.
  static int SelectProtocol(SSL* ssl, const unsigned char** selected, unsigned char* selected_size,
                            const unsigned char* offered, unsigned offered_size, void*) {
    const std::string& own = static_cast<TlsSession*>(SSL_get_app_data(ssl))->options_.protocol;
    for (unsigned at = 0; at < offered_size && offered_size - at > offered[at]; at += 1u + offered[at]) {
      if (own.empty() ||
          std::string_view(reinterpret_cast<const char*>(offered + at + 1), offered[at]) != own)
        continue;
      *selected = offered + at + 1;
      *selected_size = offered[at];
      return SSL_TLSEXT_ERR_OK;
    }
    return SSL_TLSEXT_ERR_NOACK;
  }

  // Called for each certificate of the peer's chain, after OpenSSL's checks, whose outcome is `good`. The
  // result is the decision.
  static int Verify(int good, X509_STORE_CTX* context) {
    const auto* ssl =
        static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
    TlsSession& session = *static_cast<TlsSession*>(SSL_get_app_data(ssl));
    const std::string& host = session.options_.peer_host;
    const int error = X509_STORE_CTX_get_error(context);
    if (good == 0) {
      session.refusal_ = std::string("the peer's certificate: ") + X509_verify_cert_error_string(error);
      if (error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH)
        session.refusal_ = "the peer's certificate is not for the host " + host;
      return 0;
    }
    if (X509_STORE_CTX_get_error_depth(context) > 0) return 1;
    const CertificateRoles allowed = session.options_.peer_roles;
    session.peer_roles_ = openssl::RolesOf(X509_STORE_CTX_get_current_cert(context));
    if (session.peer_roles_.Overlaps(allowed)) return 1;
    const std::string roles = session.peer_roles_.ToString();
    session.refusal_ = "the peer's certificate is for the role " + (roles.empty() ? "of nobody" : roles) +
                       ", here it must be for " + allowed.ToString();
    X509_STORE_CTX_set_error(context, X509_V_ERR_INVALID_PURPOSE);
    return 0;
  }
};

void TlsSession::Prepare(SSL_CTX* context) {
  SSL_CTX_set_alpn_select_cb(context, Callbacks::SelectProtocol, nullptr);
}

TlsSession::TlsSession(SSL_CTX* context, int fd, Options options, std::shared_ptr<TlsBuffers> buffers)
    : ssl_(SSL_new(context)), fd_(fd), options_(std::move(options)), buffers_(std::move(buffers)) {
  LEAT_CHECK(ssl_ != nullptr);
  SSL_set_app_data(ssl_, this);
  BIO* const bio = Callbacks::MakeBio(this);
  SSL_set_bio(ssl_, bio, bio);
  const int required = options_.certificate_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  const bool asks = !options_.peer_roles.empty();
  SSL_set_verify(ssl_, asks ? SSL_VERIFY_PEER | required : SSL_VERIFY_NONE, Callbacks::Verify);
  if (options_.allow_tls_1_2) LEAT_CHECK(SSL_set_min_proto_version(ssl_, TLS1_2_VERSION) == 1);
  if (asks && !options_.certificate_required) Callbacks::NameAuthority(context, ssl_);
  if (const std::string& host = options_.peer_host; !host.empty()) {
    X509_VERIFY_PARAM* const rules = SSL_get0_param(ssl_);
    // An address is looked for among the certificate's addresses only.
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) != 1)
      LEAT_CHECK(X509_VERIFY_PARAM_set1_host(rules, host.c_str(), host.size()) == 1);
    ERR_clear_error();
  }
  if (options_.side == wire::Side::kConnects) {
    SSL_set_connect_state(ssl_);
  } else {
    SSL_set_accept_state(ssl_);
  }
}

TlsSession::~TlsSession() {
  SSL_free(ssl_);
}

Result<bool> TlsSession::Handshake() {
  while (true) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_);
    const bool more = result != 1 && SSL_get_error(ssl_, result) == SSL_ERROR_WANT_READ;
    Status failure = result == 1 || more ? Status() : Failure(result);
    bool moved = false;
    // An alert tells the peer why. If it cannot be sent, the reason stays the first one.
    const Status flushed = Flush(&moved);
    if (!failure.ok()) return failure;
    if (!flushed.ok()) return flushed;
    // The messages of a handshake fit into the send buffer of a new socket.
    if (!unsent_.empty()) return Status(Code::kUnavailable, "the peer takes no bytes");
    if (result == 1) {
      established_ = true;
      KeepUnread();
      return true;
    }
    if (Receive(kRecordBytes)) continue;
    if (ended_ || error_ != 0) {
      return Status(Code::kUnavailable, error_ != 0 ? std::strerror(error_)
                                        : begun_    ? "the connection was closed during the TLS handshake"
                                                    : "the connection was closed before the TLS handshake");
    }
    return false;
  }
}

wire::SessionSecret TlsSession::ExportedSecret() {
  wire::SessionSecret secret;
  LEAT_CHECK(SSL_export_keying_material(ssl_, reinterpret_cast<unsigned char*>(secret.data()), secret.size(),
                                        kExportLabel.data(), kExportLabel.size(), nullptr, 0, 0) == 1);
  return secret;
}

// The error of a failed call. The reason is the first error of OpenSSL's queue.
Status TlsSession::Failure(int result) {
  const int kind = SSL_get_error(ssl_, result);
  const unsigned long error = ERR_get_error();
  ERR_clear_error();
  if (!refusal_.empty()) return {Code::kFailedPrecondition, refusal_};
  if (no_tls_) return {Code::kFailedPrecondition, "the peer does not use TLS"};
  if (kind == SSL_ERROR_ZERO_RETURN) return ClosedByPeer();
  const int reason = ERR_GET_REASON(error);
  if (reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256) {
    return {Code::kFailedPrecondition, std::string("the peer refuses this side's TLS: ") +
                                           SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET)};
  }
  const char* text = ERR_reason_error_string(error);
  return {Code::kDataLoss, std::string("TLS: ") + (text != nullptr ? text : "the protocol is violated")};
}

Status TlsSession::ClosedByPeer() {
  closed_by_peer_ = true;
  return {Code::kUnavailable, "closed by the peer"};
}

bool TlsSession::Receive(size_t wanted) {
  if (ended_ || error_ != 0 || std::exchange(drained_, false)) return false;
  // A record that begins in the wanted bytes is received to its end.
  const size_t most = std::min(wanted + kRecordBytes + 2 * kRecordOverhead, kSessionCallBytes);
  if (buffers_->in.size() < most) buffers_->in.resize(most);
  kept_ = {};
  while (true) {
    const ssize_t got = recv(fd_, buffers_->in.data(), most, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK) error_ = errno;
    if (got == 0) ended_ = true;
    if (got <= 0) return false;
    unread_ = ByteView(buffers_->in).first(static_cast<size_t>(got));
    if (!std::exchange(begun_, true)) no_tls_ = unread_[0] == std::byte{'L'};
    drained_ = unread_.size() < most;
    return true;
  }
}

// The shared buffer is another session's next.
void TlsSession::KeepUnread() {
  if (unread_.empty()) {
    kept_ = {};
  } else if (kept_.empty() || unread_.data() < kept_.data() ||
             unread_.data() >= kept_.data() + kept_.size()) {
    kept_.assign(unread_.begin(), unread_.end());
    unread_ = kept_;
  }
}

bool TlsSession::readable() const {
  return !unread_.empty() || SSL_pending(ssl_) > 0;
}

Result<size_t> TlsSession::Read(std::span<const iovec> pieces) {
  size_t wanted = 0;
  for (const iovec& piece : pieces) wanted += piece.iov_len;
  size_t total = 0;
  for (size_t i = 0, at = 0; i < pieces.size() && failure_.ok();) {
    if (at == pieces[i].iov_len) {
      ++i;
      at = 0;
      continue;
    }
    size_t got = 0;
    ERR_clear_error();
    const int result =
        SSL_read_ex(ssl_, static_cast<std::byte*>(pieces[i].iov_base) + at, pieces[i].iov_len - at, &got);
    if (result == 1) {
      at += got;
      total += got;
    } else if (SSL_get_error(ssl_, result) != SSL_ERROR_WANT_READ) {
      failure_ = Failure(result);
    } else if (!Receive(wanted - total)) {
      if (ended_) failure_ = ClosedByPeer();
      if (error_ != 0) failure_ = {Code::kUnavailable, std::strerror(error_)};
      break;
    }
  }
  drained_ = false;
  KeepUnread();
  bool moved = false;
  if (Status flushed = Flush(&moved); !flushed.ok() && failure_.ok()) failure_ = std::move(flushed);
  if (total == 0 && !failure_.ok()) return failure_;
  return total;
}

// Sends OpenSSL's output. Bytes that the socket does not take move from the shared buffer to this session.
Status TlsSession::Flush(bool* moved) {
  Bytes& out = buffers_->out;
  const bool kept = !unsent_.empty();
  if (kept) unsent_.insert(unsent_.end(), out.begin(), out.end());
  ByteView left = kept ? unsent_ : out;
  Status status;
  while (!left.empty()) {
    const ssize_t sent = send(fd_, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) status = {Code::kUnavailable, std::strerror(errno)};
      break;
    }
    *moved = true;
    left = left.subspan(static_cast<size_t>(sent));
  }
  Bytes rest(left.begin(), left.end());
  unsent_ = std::move(rest);
  out.clear();
  return status;
}

Result<size_t> TlsSession::Write(std::span<const iovec> pieces, bool* moved) {
  if (!unsent_.empty()) {
    LEAT_RETURN_IF_ERROR(Flush(moved));
    if (!unsent_.empty()) return size_t{0};
  }
  if (unreported_ > 0) return std::exchange(unreported_, 0);
  size_t bytes = 0;
  const Status status = EncryptAll(pieces, &bytes);
  LEAT_RETURN_IF_ERROR(Flush(moved));
  LEAT_RETURN_IF_ERROR(status);
  if (unsent_.empty()) return bytes;
  unreported_ = bytes;
  return size_t{0};
}

// Short pieces share a record.
Status TlsSession::EncryptAll(std::span<const iovec> pieces, size_t* bytes) {
  if (encrypted_ >= options_.rekey_bytes && SSL_version(ssl_) == TLS1_3_VERSION) {
    encrypted_ = 0;
    if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return Failure(0);
  }
  std::array<std::byte, kRecordBytes> record;
  size_t filled = 0;
  for (const iovec& piece : pieces) {
    const auto* data = static_cast<const std::byte*>(piece.iov_base);
    for (size_t left = piece.iov_len; left > 0 && *bytes + filled < kSessionCallBytes;) {
      const size_t part = std::min(left, kRecordBytes - filled);
      if (part == kRecordBytes) {
        LEAT_RETURN_IF_ERROR(Encrypt(data, part));
        *bytes += part;
      } else {
        std::memcpy(record.data() + filled, data, part);
        filled += part;
        if (filled == kRecordBytes) {
          LEAT_RETURN_IF_ERROR(Encrypt(record.data(), filled));
          *bytes += std::exchange(filled, 0);
        }
      }
      data += part;
      left -= part;
    }
  }
  if (filled > 0) LEAT_RETURN_IF_ERROR(Encrypt(record.data(), filled));
  *bytes += filled;
  return {};
}

// Encrypts one record. The buffer takes everything, so OpenSSL never waits.
Status TlsSession::Encrypt(const void* data, size_t bytes) {
  size_t written = 0;
  ERR_clear_error();
  const int result = SSL_write_ex(ssl_, data, bytes, &written);
  if (result != 1) return Failure(result);
  LEAT_CHECK(written == bytes);
  encrypted_ += written;
  return {};
}

// ---- identity

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
