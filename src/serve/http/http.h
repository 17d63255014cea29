// Requests for predictions, and replies.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace leat::serve {

struct HttpRequest {
  std::string method;  // "GET"; never HEAD, which is answered as GET without the body
  std::string path;    // "/v1/predict", without the query
  std::string content_type;
  std::string content_encoding;
  std::string json_bytes;  // Inference-Header-Content-Length
  std::string body;
};

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::optional<size_t> json_bytes = std::nullopt;  // Inference-Header-Content-Length
  std::string allow = {};                           // status 405: the methods there are
};

// {"error": why}, of a bad request, or of one that cannot be answered now.
HttpReply ErrorReply(int status, std::string_view why);

// One request that waits for its reply. It may outlive its connection: then the reply is dropped. It does not
// outlive the server.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  // On the thread of the exchange. Later replies than the first are dropped.
  virtual void Reply(HttpReply reply) = 0;
  // Runs `work` on the thread of the exchange. Thread-safe.
  virtual void Post(std::function<void()> work) = 0;
};

// What the head of a request decides, before its body is read.
struct Admission {
  enum class Peer {
    kUnknown,  // has not shown that it may ask for more, such as a probe
    kAnyone,   // everyone may ask
    kKnown,    // has shown a token
  };
  std::optional<HttpReply> refusal = std::nullopt;  // ends the connection
  bool body = true;                                 // false: a request with a body gets status 413
  // Connections of unknown peers make room for others. A peer of kAnyone is known once a request is complete.
  Peer peer = Peer::kAnyone;
};

// Called on the server's threads. A request whose handler throws gets status 500.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual Admission Admit(std::string_view /*path*/, std::string_view /*authorization*/) { return {}; }
  // `thread`: from 0 to below the number of threads; the same one for all that belongs to the exchange.
  virtual void Handle(size_t thread, HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  // All requests that had arrived are handled.
  virtual void OnRoundEnd(size_t /*thread*/) {}
};

}  // namespace leat::serve
