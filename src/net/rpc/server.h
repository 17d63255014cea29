// The control plane: small, infrequent messages to the coordinator over gRPC. Only this folder includes
// grpcpp.
//
// Both ends prove that they know the job's token before gRPC gets the connection (net/handshake/). With TLS,
// gRPC gets one end of a pair of sockets, and the peer's certificate decides what it may ask
// (net/rpc/codec.h). A message has at most 4 MiB.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "net/rpc/codec.h"
#include "net/tls/tls_identity.h"
#include "protocol/messages_control.h"

namespace leat::control {

// Serves on two threads of its own; with TLS, on one more for each set of roles that peers' certificates
// name. Without TLS, `address` must be loopback or in a trusted network.
class ControlServer {
 public:
  // Called on a server thread with each request; must not block. `reply` may be called later, from any
  // thread, even after the server is destroyed. Second replies and replies after the caller's deadline are
  // dropped.
  using Handler =
      std::function<void(protocol::ControlRequest, std::function<void(protocol::ControlReply)> reply)>;
  // Open connections: of all peers, and of one host. Further ones are refused.
  struct Limits {
    uint32_t connections = 16384;
    uint32_t connections_of_host = 4096;
  };
  // `address` is "host:port"; port 0 selects a free port. `port`: of a coordinator, or of a pool. Returns
  // kInvalidArgument for a malformed address, and kUnavailable with the address and the system's reason if it
  // cannot be bound.
  static Result<std::unique_ptr<ControlServer>> Start(const std::string& address, const std::string& token,
                                                      Handler handler, const Limits& limits,
                                                      std::shared_ptr<net::TlsIdentity> tls = nullptr,
                                                      const wire::Port& port = ControlPort());
  static Result<std::unique_ptr<ControlServer>> Start(const std::string& address, const std::string& token,
                                                      Handler handler) {
    return Start(address, token, std::move(handler), Limits());
  }
  // Stops within a second: sends replies already given and cancels waiting calls. Not to be called from the
  // handler.
  virtual ~ControlServer() = default;
  // With the chosen port.
  virtual const std::string& address() const = 0;
};

}  // namespace leat::control
