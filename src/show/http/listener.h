// A listener for those who look at a job: Prometheus, probes, browsers. It has threads of its own, so that
// nobody who looks can hold up a role.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics/metrics.h"
#include "base/status.h"
#include "net/http/exchange.h"
#include "net/http/server.h"
#include "net/tls/tls_identity.h"

namespace leat::observe {

// The secret of those who may look at a job. It follows from the job's token, and the token cannot be found
// out from it, so it can be given to a Prometheus server or a colleague who may change nothing.
// 64 hexadecimal digits: HMAC-SHA-256 of a label, with the token as its key.
std::string ViewToken(std::string_view token);

// Whether two secrets are the same. The time depends on their lengths alone.
bool SameSecret(std::string_view a, std::string_view b);

using net::http::Reply;
using net::http::Request;

inline constexpr const char* kText = "text/plain; charset=utf-8";
// In a stream of this type, a comment is sent in long silences, so that a viewer who has gone is found out.
inline constexpr const char* kEventStream = "text/event-stream";

struct HttpRoute {
  enum class Access {
    kEveryone,
    kViewers,  // with the view token or an observer's certificate; others get status 401
  };
  std::string method = "GET";  // which includes HEAD, or "POST"
  std::string path;            // the whole path
  Access access = Access::kViewers;
  bool grants_cookie = false;  // which authorises the further requests of a viewer's browser
  // Called on threads of the listener, several at a time. It may block for a second or two, not longer.
  // Request::known: the peer is a viewer.
  std::function<Reply(const Request&)> handler;
};

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

struct ProbeOptions {
  std::string address;  // the listener's "HOST:PORT"; a wildcard is asked on loopback
  std::string path = "/healthz";
  bool tls = false;  // with any certificate: nothing secret is sent
  Duration timeout = std::chrono::seconds(4);
};

// Asks a listener whether its role is alive, or ready. Ok if the answer has status 200. Otherwise one line
// with the address: kInvalidArgument for an address that is none or has port 0, kUnavailable if nobody
// answers in time, or not by HTTP, and kFailedPrecondition with the reason that the role gives. Blocks.
Status Probe(const ProbeOptions& options);

}  // namespace leat::observe
