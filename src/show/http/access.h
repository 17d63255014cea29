// Routes of a listener for observers, and who may ask them.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "net/http/exchange.h"

namespace leat::observe {

// The secret of those who may look at a job. It follows from the job's token, and the token cannot be found
// out from it, so it can be given to a Prometheus server or a colleague who may change nothing.

// 64 hexadecimal digits: HMAC-SHA-256 of a label, with the token as its key.
std::string ViewToken(std::string_view token);

// Whether two secrets are the same. The time depends on their lengths alone.
bool SameSecret(std::string_view a, std::string_view b);

// The routes that a listener for observers serves.

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

}  // namespace leat::observe
