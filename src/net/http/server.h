// An HTTP/1.1 server on Boost.Asio, with or without TLS, for predictions and for observers of a job. A few
// threads serve all connections.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "net/http/exchange.h"
#include "net/security/certificate_roles.h"
#include "net/tls/tls_identity.h"

namespace leat::net::http {

class Server {
 public:
  struct Options {
    std::string address = "127.0.0.1:0";  // port 0: any free port
    size_t threads = 1;
    bool handlers_block = false;  // for a while: the thread that accepts connections has none, beside others
    std::shared_ptr<TlsIdentity> tls = nullptr;  // null: no TLS
    // A client may show a certificate with one of these; empty: it is not asked for any.
    CertificateRoles client_roles = {};
    bool allow_tls_1_2 = false;              // besides 1.3
    std::optional<OwnNames> own_names = {};  // none: requests may name any host
    std::string metrics = "leat_serve";      // how the names of its metrics begin
    size_t max_body = 8 << 20;               // a larger request gets status 413
    // A further connection replaces an unknown peer's, or else the one that is idle for longest
    // (net/http/connection_limit.h). If all wait for a reply, it gets status 503.
    size_t max_connections = 1024;
    Duration request_timeout = std::chrono::seconds(10);  // to read a request that has begun, and for TLS
    Duration write_timeout = std::chrono::seconds(10);    // to write a reply, or a piece of a stream
    Duration idle_timeout = std::chrono::minutes(2);      // between two requests; unknown: request_timeout
  };

  // `handler` and `registry` outlive it. The error names the address: "cannot listen on 127.0.0.1:9464:
  // Address already in use". Blocks if a name has to be looked up.
  static Result<std::unique_ptr<Server>> Start(Options options, Handler& handler,
                                               metrics::Registry& registry);
  // Ends all connections, and waits for handlers that run. Replies that come later are dropped.
  virtual ~Server() = default;

  virtual const std::string& address() const = 0;  // with the real port
  // When the thread that has done so least recently has looked for something to do; four times a second each
  // of them does. Thread-safe.
  virtual Time turned() const = 0;
  // New connections are refused, and the present ones end with their next reply. Returns once all have, or at
  // the deadline.
  virtual void Drain(Duration deadline) = 0;
};

}  // namespace leat::net::http
