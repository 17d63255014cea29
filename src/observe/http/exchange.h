// One request and its response: routes, access, and the form of what is sent. cpp-httplib reads the target
// and writes the response; it sees no byte of a head that ParseHead has not passed.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/http/request_head.h"
#include "observe/http/access.h"
#include "observe/http/http.h"

namespace leat::observe {

// What all connections of a listener share.
struct HttpService {
  HttpService(std::vector<HttpRoute> its_routes, Access its_access, size_t most_streams)
      : routes(std::move(its_routes)), access(std::move(its_access)), max_streams(most_streams) {}

  const std::vector<HttpRoute> routes;
  const Access access;
  const size_t max_streams;
  std::atomic<size_t> streams{0};     // that are being sent
  std::atomic<bool> stopping{false};  // streams end
};

// Sends a piece of a response; an error ends it.
using HttpSend = std::function<Status(std::string_view)>;

// Answers one request, with as many calls of `send` as it takes. True: the connection can be used again.
// `authorised`: what Access::Authorised says of it.
bool AnswerRequest(HttpService& service, const net::RequestHead& head, bool authorised, const HttpSend& send);

// Answers what is no request. The connection has to be closed.
Status SendError(int status, std::string_view why, const HttpSend& send);

}  // namespace leat::observe
