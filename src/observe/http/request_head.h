// The head of an HTTP/1.1 request: request line and headers, as bytes from an unauthenticated peer. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat::observe {

struct RequestHead {
  // A longer head is refused. Browsers send the cookies of all servers of a host, whatever their ports.
  static constexpr size_t kMaxBytes = 16 << 10;

  std::string method;     // "GET"
  std::string target;     // "/metrics?x=1", as it was sent
  bool http_1_0 = false;  // else HTTP/1.1
  // By name in lower case. A header that came more than once has all values, with ", " between.
  std::map<std::string, std::string> headers;

  // "" if there is no such header.
  std::string_view Header(std::string_view name) const;
  bool has_body() const;
  bool keep_alive() const;
  bool accepts_gzip() const;
};

// ASCII letters in lower case.
std::string Lower(std::string_view text);

// The size of the head at the beginning of `bytes`, with the empty line that ends it; none: it is not
// complete.
std::optional<size_t> HeadBytes(std::string_view bytes);

// kInvalidArgument with what is wrong: a line that is no header, a control character, a header that may come
// once only and came twice, a target that is no path.
Result<RequestHead> ParseHead(std::string_view head);

}  // namespace leat::observe
