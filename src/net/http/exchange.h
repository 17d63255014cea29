// Requests that an HTTP server has read, and replies.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http/request_head.h"
#include "net/security/certificate_roles.h"

namespace leat::net::http {

struct Request {
  RequestHead head;  // its method is never HEAD, which is answered as GET without the body
  std::string body = {};
  bool known = false;  // the peer is Admission::Peer::kKnown
};

// The next piece of a body without an end, such as an event of a page that follows a job. "": there is
// nothing yet; none: the end. It does not block. An exception ends the connection.
using Stream = std::function<std::optional<std::string>()>;

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body = {};
  std::string headers = {};  // further ones, each with its CR LF
  Stream stream = nullptr;   // instead of `body`
};

// A request and the place for its reply. It may outlive its connection, and the reply is dropped then, but
// not the server.
class Exchange {
 public:
  virtual ~Exchange() = default;
  // On the thread of the exchange. Later replies than the first are dropped.
  virtual void Send(Reply reply) = 0;
  // Runs `work` on the thread of the exchange. Thread-safe.
  virtual void Post(std::function<void()> work) = 0;
};

// The decision about a request by its head, before its body is read.
struct Admission {
  enum class Peer {
    kUnknown,  // has not shown that it may ask for more, such as a probe
    kAnyone,   // everyone may ask
    kKnown,    // has shown a token, or a certificate
  };
  std::optional<Reply> refusal = std::nullopt;  // ends the connection
  bool body = true;                             // false: a request with a body gets status 413
  // Connections of unknown peers make room for others. A peer of kAnyone is known once a request is complete.
  Peer peer = Peer::kAnyone;
};

// Called on the server's threads. A request whose handler throws gets status 500.
class Handler {
 public:
  virtual ~Handler() = default;
  // Once, before the first request: the address with the real port.
  virtual void OnListening(const std::string& /*address*/) {}
  // `roles`: of the peer's certificate, which has been verified; none if it has shown none.
  virtual Admission Admit(const RequestHead& /*head*/, CertificateRoles /*roles*/) { return {}; }
  // The reply to a request that the server refuses or cannot answer.
  virtual Reply Error(int status, std::string_view why) const = 0;
  // `thread`: from 0 to below the number of threads; the same one for all that belongs to the exchange.
  virtual void Handle(size_t thread, Request request, std::shared_ptr<Exchange> exchange) = 0;
  // All requests that had arrived are handled.
  virtual void OnRoundEnd(size_t /*thread*/) {}
};

}  // namespace leat::net::http
