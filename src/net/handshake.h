// Sockets whose two ends have shown each other the job's token (wire::EncodeHello): how one gets in, and how
// strangers stay out. Nothing that a stranger sends after its hello is read. Loop's thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "net/same_host/descriptor.h"
#include "net/transport.h"
#include "net/transport_context.h"

namespace leat::net {

// Connected, non-blocking, the hellos read to their last byte and nothing beyond.
struct AuthenticatedSocket {
  Descriptor socket;
  std::string peer;  // "127.0.0.1:40123"
};

// Listens at "host:port", port 0 = any that is free; errors name the address. `on_socket` may destroy the
// listener. Nobody is admitted while `shared->accepted`, which who admits counts, is at its limit.
Result<std::unique_ptr<Listener>> ListenAuthenticated(std::shared_ptr<TransportContext> shared,
                                                      const std::string& address,
                                                      std::function<void(AuthenticatedSocket)> on_socket);

// One attempt to get in: `done` comes on the loop, never from within, unless the handle that is returned is
// gone by then. kPermissionDenied when the other end has another token.
std::shared_ptr<void> ConnectAuthenticated(std::shared_ptr<TransportContext> shared,
                                           const std::string& address, Duration deadline,
                                           std::function<void(Result<AuthenticatedSocket>)> done);

}  // namespace leat::net
