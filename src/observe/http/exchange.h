// One request and its response: routes, access, and the form of what is sent. cpp-httplib reads the target
// and writes the response; it sees no byte of a head that ParseHead has not passed.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "net/security/certificate_roles.h"
#include "observe/http/access.h"
#include "observe/http/http.h"
#include "observe/http/request_head.h"

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

struct HttpPeer {
  std::string address;          // "10.0.0.7:51234"
  net::CertificateRoles roles;  // of its certificate
};

// Sends a piece of a response; an error ends it.
using HttpSend = std::function<Status(std::string_view)>;

// Answers one request, with as many calls of `send` as it takes. True: the connection can be used again.
bool AnswerRequest(HttpService& service, const HttpPeer& peer, const RequestHead& head, const HttpSend& send);

// Answers what is no request. The connection has to be closed.
Status SendError(int status, std::string_view why, const HttpSend& send);

}  // namespace leat::observe
