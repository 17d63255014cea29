// A listener for those who look at a job: Prometheus, probes, browsers. It has threads of its own, so that
// nobody who looks can hold up a role.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "net/http/server.h"
#include "net/tls/tls_identity.h"
#include "show/http/access.h"

namespace leat::observe {

// Routes, access, and the form of replies. It has no socket.
//
// A browser sends a user's cookies and certificate with the requests of any page. A page of somebody else is
// kept out by the names under which the listener may be called, by the origin of the request
// (net/http/exchange.h), and by cookies that other pages cannot use.
class Viewers final : public net::http::Handler {
 public:
  Viewers(std::vector<HttpRoute> routes, std::string view_token, bool tls, size_t max_streams);

  void OnListening(const std::string& address) override;
  // A viewer has the view token, as "Authorization: Bearer" or as the cookie, or an observer's certificate.
  net::http::Admission Admit(const net::RequestHead& head, net::CertificateRoles roles) override;
  Reply Error(int status, std::string_view why) const override;
  void Handle(size_t thread, Request request, std::shared_ptr<net::http::Exchange> exchange) override;

  // The value of Set-Cookie that makes a browser a viewer.
  std::string SetCookie() const;

 private:
  Reply Answer(const Request& request);
  // With the headers that protect pages; compressed, or counted as one of the streams.
  Reply Completed(Reply reply, const Request& request);

  const std::vector<HttpRoute> routes_;
  const std::string view_token_;
  const bool tls_;
  const size_t max_streams_;
  std::string cookie_;  // its name, once the port is known: cookies do not distinguish the ports of a host
  const std::shared_ptr<std::atomic<size_t>> streams_ = std::make_shared<std::atomic<size_t>>(0);
};

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
    // A further connection takes the place of one without an authorised request, or of the one that has been
    // idle for longest since. If all are serving one right now, it gets status 503.
    size_t max_connections = 48;
    size_t max_streams = 16;
    Duration request_timeout = std::chrono::seconds(5);  // for TLS, and for the head of a request
    Duration idle_timeout = std::chrono::seconds(10);    // between two requests of a viewer
    Duration write_timeout = std::chrono::seconds(5);    // for a response, or a piece of a stream
  };

  // Whether the address may be listened on is for the caller to decide (launcher::CheckListen). Errors are
  // those of net::http::Server::Start.
  static Result<std::unique_ptr<HttpListener>> Start(Options options, std::vector<HttpRoute> routes);

  const std::string& address() const { return server_->address(); }  // with the real port

 private:
  HttpListener(Options options, std::vector<HttpRoute> routes)
      : viewers_(std::move(routes), std::move(options.view_token), options.tls != nullptr,
                 options.max_streams) {}

  metrics::Registry metrics_;  // the server's; nobody reads them
  Viewers viewers_;
  std::unique_ptr<net::http::Server> server_;  // ends all connections, and waits for handlers that run
};

}  // namespace leat::observe
