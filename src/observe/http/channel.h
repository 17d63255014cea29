// One accepted connection, with or without TLS, and a deadline for each call.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "net/same_host/descriptor.h"
#include "net/security/certificate_roles.h"
#include "net/tls/tls_identity.h"
#include "net/tls/tls_session.h"

namespace leat::observe {

// One thread at a time, except for Shut.
class HttpChannel {
 public:
  // `socket`: connected and non-blocking.
  explicit HttpChannel(net::Descriptor socket) : socket_(std::move(socket)) {}

  // The TLS handshake of the side that accepts; the peer may have a certificate. kInvalidArgument: the peer
  // does not speak TLS, and can be told so without.
  Status BeginTls(net::TlsIdentity& identity, Time deadline);
  // None: no TLS, or no certificate.
  net::CertificateRoles peer_roles() const {
    return tls_ != nullptr ? tls_->peer_roles() : net::CertificateRoles();
  }

  // At least one byte, or 0 at the end of the connection. kDeadlineExceeded, or what has ended the
  // connection.
  Result<size_t> Read(std::span<char> bytes, Time deadline);
  // All of it. As Read.
  Status Write(std::string_view bytes, Time deadline);
  // Thread-safe. Calls that wait end soon, and all later ones fail.
  void Shut() const;

 private:
  // Until the socket is ready for `events` of poll.
  Status Await(short events, Time deadline) const;

  const MonotonicClock clock_;
  const net::Descriptor socket_;
  std::unique_ptr<net::TlsSession> tls_;
};

}  // namespace leat::observe
