// The control plane: small, rare messages to the coordinator over gRPC (the only folder that includes
// grpcpp).
//
// The job's token travels as call metadata and is checked before the message is parsed. Messages are at most
// 4 MiB.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "protocol/messages.h"

namespace leat::control {

// Serves on threads of its own.
class ControlServer {
 public:
  // Called on a thread of the server's with each request that showed the token; `reply` may be called later,
  // from any thread, exactly once. A request that is not answered within its caller's deadline is simply
  // gone.
  using Handler =
      std::function<void(protocol::ControlRequest, std::function<void(protocol::ControlReply)> reply)>;
  // `address` "host:port", port 0 = any. kUnavailable naming the address when it cannot be had.
  static Result<std::unique_ptr<ControlServer>> Start(const std::string& address, const std::string& token,
                                                      Handler handler);
  // Stops: waiting calls are cancelled within a second.
  virtual ~ControlServer() = default;
  virtual const std::string& address() const = 0;
};

// Thread-safe.
class ControlClient {
 public:
  // Connects when first called; reconnects by itself.
  static std::unique_ptr<ControlClient> Make(const std::string& address, const std::string& token);
  virtual ~ControlClient() = default;
  // Blocks until the reply, or kDeadlineExceeded / kUnavailable / kPermissionDenied naming the address. A
  // Refusal comes back as its status.
  virtual Result<protocol::ControlReply> Call(const protocol::ControlRequest& request, Duration deadline) = 0;
  // Makes calls under way and later ones return kAborted. Thread-safe.
  virtual void Abort() = 0;
};

}  // namespace leat::control
