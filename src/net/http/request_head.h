// The head of an HTTP/1.1 request: request line and headers, as bytes from an unauthenticated peer (RFC 9110,
// RFC 9112). Pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat::net {

struct RequestHead {
  // A longer head is refused. Browsers send the cookies of all servers of a host, whatever their ports.
  static constexpr size_t kMaxBytes = 16 << 10;
  static constexpr std::string_view kEnd = "\r\n\r\n";

  std::string method;     // "GET"
  std::string target;     // "/metrics?x=1"; "*" of OPTIONS
  bool http_1_0 = false;  // else HTTP/1.1
  // By name in lower case. A header that came more than once has all values, with ", " between. The host of a
  // target "http://host/path" is in the place of the header host.
  std::map<std::string, std::string> headers;

  // The target without the query, and the query without its question mark.
  std::string_view path() const;
  std::string_view query() const;
  // "a b" of "/path?name=a+b%20"; none: the query does not have the name.
  std::optional<std::string> QueryValue(std::string_view name) const;
  // "" if there is no such header.
  std::string_view Header(std::string_view name) const;
  // TOKEN of "Authorization: Bearer TOKEN"; "" without it.
  std::string_view BearerToken() const;
  bool has_body() const;
  bool keep_alive() const;
  bool accepts_gzip() const;
};

// Whether a method or a header may have this name.
bool IsToken(std::string_view text);
// %41 becomes A. None: a percent sign without two digits.
std::optional<std::string> DecodePercent(std::string_view text);

// Parses a whole head, its end included. kInvalidArgument with what is wrong: a line that is no header, a
// control character, a header that may come once only and came twice, a target that is no path.
Result<RequestHead> ParseHead(std::string_view head);

// The names under which a listener may be called, against pages of somebody else: a name of theirs could be
// made to lead here (DNS rebinding), and a browser would take this listener for a part of their page.
// Thread-safe.

// A request is refused so, whatever it asks for.
struct HttpRefusal {
  int status = 0;
  std::string why;
};

class OwnNames {
 public:
  // IP addresses, localhost, the host of `address`, and this host's name are known without being in `names`.
  // `certified`: whether a name is in the listener's certificate; null: it has none.
  explicit OwnNames(std::vector<std::string> names, const std::string& address = "",
                    std::function<bool(const std::string&)> certified = nullptr);

  // Checks the headers Host (status 421) and Origin (403).
  std::optional<HttpRefusal> Check(const RequestHead& head) const;

 private:
  bool Knows(std::string_view host) const;

  std::vector<std::string> names_;
  const std::function<bool(const std::string&)> certified_;
};

}  // namespace leat::net
