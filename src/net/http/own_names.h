// The names under which a listener may be called, against pages of somebody else: a name of theirs could be
// made to lead here (DNS rebinding), and a browser would take this listener for a part of their page.
// Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http/request_head.h"

namespace leat::net {

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
