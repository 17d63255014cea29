// HTTP GET through libcurl, over one connection that stays open.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace leat::stream {

struct HttpOptions {
  std::string user;                  // user:password of basic authentication
  std::string ca, certificate, key;  // paths; empty: the system's authorities, no certificate
  std::string key_password;
};

struct HttpReply {
  int status = 0;
  std::string body;
};

// Not thread-safe.
class HttpClient {
 public:
  static constexpr size_t kMaxBody = size_t{4} << 20;

  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Any reply of the server. kUnavailable if there is none, kDeadlineExceeded if it has not come by then,
  // kDataLoss if it is too long. Redirects are replies.
  Result<HttpReply> Get(const std::string& url, Duration timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace leat::stream
