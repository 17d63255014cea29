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
  // Once, on the thread of the exchange.
  virtual void Reply(HttpReply reply) = 0;
  // Runs `work` on the thread of the exchange. Thread-safe.
  virtual void Post(std::function<void()> work) = 0;
};

// Called on the server's threads.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Decides by the head of a request, before its body is read, whether it is refused, and the connection with
  // it. None: it is not.
  virtual std::optional<HttpReply> Refuse(std::string_view /*path*/, std::string_view /*authorization*/) {
    return std::nullopt;
  }
  // `thread`: from 0 to below the number of threads; the same one for all that belongs to the exchange.
  virtual void Handle(size_t thread, HttpRequest request, std::shared_ptr<HttpExchange> exchange) = 0;
  // All requests that had arrived are handled.
  virtual void OnRoundEnd(size_t /*thread*/) {}
};

}  // namespace leat::serve
