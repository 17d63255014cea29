// TLS over sockets: sessions, and the certificates from which they begin.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "net/frames/handshake.h"
#include "net/security/certificate_roles.h"

struct ssl_st;
struct ssl_ctx_st;

namespace leat::net {

// Buffers of all sessions of a thread.
struct TlsBuffers {
  Bytes in, out;  // ciphertext
};

// TLS 1.3 over one connected socket: handshake, then bytes both ways. Between roles both sides show
// certificates of one authority. Never blocks. For one thread at a time.
//
// Ciphertext is received and sent in large pieces, through buffers that all sessions of a thread share. An
// idle session keeps no buffer.
class TlsSession {
 public:
  struct Options {
    wire::Side side = wire::Side::kConnects;
    CertificateRoles peer_roles;  // the peer's certificate needs one of them; none: it is asked for none
    // False, on the accepting side: a peer's certificate is optional, but verified if there is one. A peer
    // without one has no roles.
    bool certificate_required = true;
    std::string peer_host;  // and names this host or IP address; empty: any
    // On the accepting side: the protocol inside, by its name in ALPN ("h2"), for peers that ask for it;
    // empty: none is named.
    std::string protocol = {};
    bool allow_tls_1_2 = false;  // on the accepting side
    // The keys change after so many bytes, long before AES-GCM's limit for one key.
    uint64_t rekey_bytes = uint64_t{64} << 30;
  };

  // Once for each context, before its first session.
  static void Prepare(ssl_ctx_st* context);
  // Use TlsIdentity::Begin.
  TlsSession(ssl_ctx_st* context, int fd, Options options, std::shared_ptr<TlsBuffers> buffers);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // Continues the handshake when the socket is readable; true once it is complete. Returns
  // kFailedPrecondition with the reason if this side refuses the peer's certificate, the peer refuses this
  // side's, or the peer does not speak TLS; kDataLoss if it breaks the protocol; kUnavailable if it has gone.
  Result<bool> Handshake();
  bool established() const { return established_; }
  // The functions below are valid once established.
  CertificateRoles peer_roles() const { return peer_roles_; }  // none of a peer without a certificate
  // A secret of this session alone. Both sides have the same.
  wire::SessionSecret ExportedSecret();

  // Fills the pieces with arrived bytes, and returns their number; less than the size of the pieces if no
  // more have arrived. An error, after all bytes before it, is the end of the connection: kUnavailable,
  // kDataLoss, or kFailedPrecondition (the peer refuses this side's certificate, which it may do after this
  // side's handshake).
  Result<size_t> Read(std::span<const iovec> pieces);
  // Why a Read has failed: the peer has ended the connection in order, or by its end.
  bool closed_by_peer() const { return closed_by_peer_; }
  // Bytes may be there although the socket is not readable: call Read before waiting for it.
  bool readable() const;
  // Sends the beginning of the pieces, and returns how much of them has been given to the socket. Until that
  // is not 0, the next call must pass the same bytes again. `moved` is set if the socket took anything.
  Result<size_t> Write(std::span<const iovec> pieces, bool* moved);

 private:
  struct Callbacks;  // OpenSSL's
  friend struct Callbacks;

  // Reads ciphertext for about `wanted` bytes. False if nothing is there, or at the end.
  bool Receive(size_t wanted);
  void KeepUnread();
  Status Flush(bool* moved);
  Status EncryptAll(std::span<const iovec> pieces, size_t* bytes);
  Status Encrypt(const void* data, size_t bytes);
  Status Failure(int result);
  Status ClosedByPeer();

  ssl_st* const ssl_;  // owned
  const int fd_;
  const Options options_;
  const std::shared_ptr<TlsBuffers> buffers_;
  bool established_ = false;
  CertificateRoles peer_roles_;
  std::string refusal_;  // why this side refuses the peer's certificate

  ByteView unread_;       // ciphertext for OpenSSL, in buffers_->in or kept_
  Bytes kept_;            // ciphertext that a call of Read left
  bool begun_ = false;    // a byte has arrived
  bool no_tls_ = false;   // and it is not TLS
  bool drained_ = false;  // the socket had less than was asked for
  bool ended_ = false;    // the peer has closed the connection
  bool closed_by_peer_ = false;
  int error_ = 0;   // or the socket has failed
  Status failure_;  // the end of the connection, once all bytes before it are read

  Bytes unsent_;            // ciphertext that the socket has not taken
  size_t unreported_ = 0;   // plaintext in unsent_
  uint64_t encrypted_ = 0;  // plaintext since the last change of keys
};

// A certificate and its key, from which TLS connections begin: of a role (net/security/certificate.h), or for
// clients that show none. Thread-safe.
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
