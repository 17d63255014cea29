// The control plane: small, rare messages to the coordinator over gRPC (the only folder that includes
// grpcpp).
//
// Both ends show the job's token before gRPC is given the connection (net/handshake.h). Messages are at most
// 4 MiB.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/messages_control.h"

namespace leat::control {

// Serves on two threads of its own. Listens without TLS: `address` is to be loopback or a network that is
// trusted.
class ControlServer {
 public:
  // Called on one of the server's threads with each request: it should not block. `reply` may be called
  // later, from any thread, even after the server is gone; what it is called with after the first time or
  // after the caller's deadline is dropped.
  using Handler =
      std::function<void(protocol::ControlRequest, std::function<void(protocol::ControlReply)> reply)>;
  // `address` "host:port", port 0 = any. kInvalidArgument when it is no address, kUnavailable naming it and
  // the system's reason when it cannot be had.
  static Result<std::unique_ptr<ControlServer>> Start(const std::string& address, const std::string& token,
                                                      Handler handler);
  // Stops within a second: replies that were given are sent, calls that wait for one are cancelled. Not to be
  // called from the handler.
  virtual ~ControlServer() = default;
  // With the port that was chosen.
  virtual const std::string& address() const = 0;
};

// Thread-safe.
class ControlClient {
 public:
  // Connects when first called; reconnects by itself. No proxy is used, and a numeric address is not looked
  // up.
  static std::unique_ptr<ControlClient> Make(const std::string& address, const std::string& token);
  virtual ~ControlClient() = default;
  // Blocks until the reply or the deadline, waiting for a coordinator that is not there yet; a request is
  // sent once at most. kUnavailable naming the address when it could not be reached by then or went away
  // during the call, kDeadlineExceeded when it was reached but did not answer, kPermissionDenied when the
  // token is wrong. A Refusal comes back as its status. The reply is the one that belongs to the request.
  virtual Result<protocol::ControlReply> Call(const protocol::ControlRequest& request, Duration deadline) = 0;
  // Makes calls under way and later ones return kAborted. Thread-safe.
  virtual void Abort() = 0;
};

}  // namespace leat::control
