// Requests to a listener for observers, and responses. Only what they need: no bodies of requests, no ranges.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace leat::observe {

struct HttpRequest {
  std::string path;                               // decoded, "/metrics"
  std::multimap<std::string, std::string> query;  // decoded
  bool authorised = false;                        // by the view token or an observer's certificate
};

// The next piece of a body without an end, such as an event of a page that follows the job. It blocks for
// `wait` at most, which is 0 in a listener, and returns "" if there is nothing yet, or none at the end.
using HttpStream = std::function<std::optional<std::string>(Duration wait)>;

inline constexpr const char* kEventStream = "text/event-stream";

struct HttpResponse {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  // The browser gets the cookie that authorises its further requests. Only for requests that are authorised.
  bool grant_cookie = false;
  // Instead of `body`. In a stream of type kEventStream, a comment is sent in long silences, so that a viewer
  // who has gone is found out.
  HttpStream stream = nullptr;
};

struct HttpRoute {
  enum class Access {
    kEveryone,
    kViewers,  // with the view token or an observer's certificate; others get status 401
  };
  std::string method = "GET";  // which includes HEAD, or "POST"
  std::string path;            // the whole path
  Access access = Access::kViewers;
  // Called on threads of the listener, several at a time. It may block for a second or two, not longer.
  std::function<HttpResponse(const HttpRequest&)> handler;
};

}  // namespace leat::observe
