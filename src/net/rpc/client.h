// The client side of the control plane: calls of a role to the coordinator over gRPC (server.h).
//
// The coordinator may be restarted, also at another address: the client is given all of them, or a name that
// has several. It stays with the one that it reaches, and goes on to the next after a failure.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/rpc/codec.h"
#include "net/tls/tls_identity.h"
#include "protocol/messages_control.h"

namespace leat::control {

// Thread-safe.
class ControlClient {
 public:
  // Connects on the first call and reconnects as needed. Ignores proxy settings; a numeric address is not
  // resolved, a name at each attempt. `addresses`: one, or several with commas between. With `tls`, the
  // coordinator's certificate must name the host of its address. `port`: of a coordinator, or of a pool.
  static std::unique_ptr<ControlClient> Make(const std::string& addresses, const std::string& token,
                                             std::shared_ptr<net::TlsIdentity> tls = nullptr,
                                             const wire::Port& port = ControlPort());
  virtual ~ControlClient() = default;
  // Blocks until the reply or the deadline, and waits for a coordinator that is not listening yet. A request
  // is sent at most once. Returns kUnavailable with the address if the coordinator could not be reached by
  // the deadline or was lost during the call, kDeadlineExceeded if it was reached but did not answer,
  // kPermissionDenied for a wrong token, kFailedPrecondition if the sides differ in version or in the use of
  // TLS or if one refuses the other's certificate, and the status of a Refusal; after one with kUnavailable,
  // of a standby, the next call is made at another address. A reply is always of the kind that belongs to the
  // request; a standby may answer the heartbeat of a server or worker with a Candidacy.
  virtual Result<protocol::ControlReply> Call(const protocol::ControlRequest& request, Duration deadline) = 0;
  // Makes current and later calls return kAborted. Thread-safe.
  virtual void Abort() = 0;
  // With true: makes later calls return kAborted, and current ones that have not sent their request; those
  // that have are still answered. With false: no longer. Thread-safe.
  virtual void AbortUnsent(bool abort) = 0;
  // More addresses to try, such as those of standbys; invalid ones are left out. Thread-safe.
  virtual void AddAddresses(const std::vector<std::string>& addresses) = 0;
  // All of them. Thread-safe.
  virtual std::vector<std::string> addresses() const = 0;
  // The address that was reached last, or will be tried next. Thread-safe.
  virtual std::string address() const = 0;
};

// As ControlClient::Call, for a reply of the kind that belongs to the request.
template <class Reply>
Result<Reply> CallFor(ControlClient& client, const protocol::ControlRequest& request, Duration deadline) {
  LEAT_ASSIGN_OR_RETURN(protocol::ControlReply reply, client.Call(request, deadline));
  if (auto* expected = std::get_if<Reply>(&reply)) return std::move(*expected);
  return Status(Code::kInternal, "the coordinator sent a reply of the wrong type");
}

}  // namespace leat::control
