// Authentication of new sockets: TLS begins if the options have an identity, then both sides prove that they
// know the job's token (net/frames/handshake.h). Nothing but the handshakes is read from an unauthenticated
// peer. Loop's thread only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/same_host/same_host_peer.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

// Connected and non-blocking. Exactly the handshake has been read, from `tls` if there is one.
struct AuthenticatedSocket {
  Descriptor socket;
  std::string peer;                 // "127.0.0.1:40123"
  std::unique_ptr<TlsSession> tls;  // TLS of the socket; null: no TLS
};

// Listens at "host:port"; port 0 selects a free port. Errors name the address. `on_socket` may destroy the
// listener. Refuses peers for which `shared`, whose counts of connections the caller maintains, has no room.
// A refused peer is a line in the log that names it and the reason; a flood of them, a few lines.
//
// With `protocol` (its name in ALPN), the peers are observers: they know no token and speak it from the first
// byte on. With TLS they need an observer's certificate, without TLS every peer is admitted.
Result<std::unique_ptr<Listener>> ListenAuthenticated(std::shared_ptr<TransportContext> shared,
                                                      const std::string& address,
                                                      std::function<void(AuthenticatedSocket)> on_socket,
                                                      std::optional<std::string> protocol = std::nullopt);

// Makes one attempt to connect and authenticate. `done` runs on the loop, never inside this call, unless the
// returned handle is destroyed first. Returns kDeadlineExceeded if the host does not answer, as
// Transport::Connect does, kPermissionDenied if the peer has another token, and kFailedPrecondition if it
// speaks another version, serves another kind of port, differs in the use of TLS, or if one side refuses the
// other's certificate. A coordinator's certificate must name the host of `address`. If that name has several
// addresses, they are tried in order from number `first` on, the first of them again after the last.
std::shared_ptr<void> ConnectAuthenticated(std::shared_ptr<TransportContext> shared,
                                           const std::string& address, Duration deadline,
                                           std::function<void(Result<AuthenticatedSocket>)> done,
                                           uint32_t first = 0);

// Calls `ended` on the loop once another owner of the connected socket has shut it down. Keeps a duplicate of
// the descriptor until then. The returned handle ends the watch.
std::shared_ptr<void> WatchForShutdown(Loop& loop, int fd, std::function<void()> ended);

}  // namespace leat::net
