// The routes that a listener for observers serves.
#pragma once

#include <functional>
#include <string>

#include "net/http/exchange.h"

namespace leat::observe {

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
