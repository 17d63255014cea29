// An HTTP/1.1 server on Boost.Asio, with or without TLS. A few threads serve all connections.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "metrics/metrics.h"
#include "net/http/own_names.h"
#include "serve/http/http.h"

namespace leat::serve {

class HttpServer {
 public:
  struct Options {
    std::string address = "127.0.0.1:0";  // port 0: any free port
    size_t threads = 1;
    // PEM files for TLS, with the certificate's chain; both or none. They are read again when they change.
    std::string certificate = {}, key = {};
    std::optional<net::OwnNames> own_names = {};  // none: requests may name any host
    size_t max_body = 8 << 20;                    // a larger request gets status 413
    // A further one takes the place of an unknown peer's, or of the one that has been idle for longest since
    // (net/http/connection_limit.h). If all wait for a reply, it gets status 503.
    size_t max_connections = 1024;
    Duration request_timeout = std::chrono::seconds(10);  // to read a request that has begun, and for TLS
    Duration write_timeout = std::chrono::seconds(10);    // to write a reply
    Duration idle_timeout = std::chrono::minutes(2);      // between two requests; unknown: request_timeout
  };

  // `handler` and `registry` outlive it. The error names the address, or the file.
  static Result<std::unique_ptr<HttpServer>> Start(Options options, HttpHandler& handler,
                                                   metrics::Registry& registry);
  // Ends all connections. Replies that come later are dropped.
  virtual ~HttpServer() = default;

  virtual const std::string& address() const = 0;  // with the real port
  // When the thread that has done so least recently has looked for something to do; four times a second each
  // of them does. Thread-safe.
  virtual Time turned() const = 0;
  // New connections are refused, and the present ones end with their next reply. Returns once all have, or at
  // the deadline.
  virtual void Drain(Duration deadline) = 0;
};

}  // namespace leat::serve
