// A listener for those who look at a job: Prometheus, probes, browsers. It has threads of its own, so that
// nobody who looks can hold up a role.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "net/tls/tls_identity.h"
#include "observe/http/http.h"

namespace leat::observe {

class HttpListener {
 public:
  struct Options {
    std::string address = "127.0.0.1:0";  // port 0: any free port
    std::string view_token;
    // Names of this host besides that in `address`, under which it may be called. Others than names in the
    // certificate, IP addresses and localhost are refused.
    std::vector<std::string> hosts = {};
    // Null: no TLS. Clients may have a certificate of the same authority, and need none.
    std::shared_ptr<net::TlsIdentity> tls = nullptr;
    // Each connection has a thread while it is open. A further one takes the place of one without an
    // authorised request, or of the one that has been idle for longest since (net/http/connection_limit.h).
    // If all are serving one right now, it gets status 503.
    size_t max_connections = 48;
    size_t max_streams = 16;
    Duration request_timeout = std::chrono::seconds(5);  // for TLS, and for the head of a request
    Duration idle_timeout = std::chrono::seconds(10);    // between two requests of a connection
    Duration write_timeout = std::chrono::seconds(5);    // for a piece of a response
  };

  // Whether the address may be listened on is for the caller to decide (launcher::CheckListen). The error
  // names the address: "cannot listen on 127.0.0.1:9464: Address already in use". Blocks if a name has to be
  // looked up.
  static Result<std::unique_ptr<HttpListener>> Start(Options options, std::vector<HttpRoute> routes);
  // Ends all connections, and waits for handlers that run.
  virtual ~HttpListener() = default;

  virtual const std::string& address() const = 0;  // with the real port
};

}  // namespace leat::observe
