#include "net/http/own_names.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "net/address.h"

namespace leat::net {
namespace {

constexpr size_t kMostShownOfName = 100;

bool SameLetters(std::string_view a, std::string_view b) {
  return Lower(a) == Lower(b);
}

// "[::1]:80" and "[::1]" are ::1, "name:80" is name.
std::string_view WithoutPort(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

bool IsIpAddress(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, text.c_str(), &v4) == 1 || inet_pton(AF_INET6, text.c_str(), &v6) == 1;
}

}  // namespace

OwnNames::OwnNames(std::vector<std::string> names, const std::string& address,
                   std::function<bool(const std::string&)> certified)
    : names_(std::move(names)), certified_(std::move(certified)) {
  if (const auto own = ParseAddress(address); own.ok()) names_.push_back(own->host);
  if (const std::string name = HostName(); !name.empty()) {
    names_.push_back(name);
    names_.push_back(name.substr(0, name.find('.')));
  }
}

bool OwnNames::Knows(std::string_view host) const {
  if (IsIpAddress(host) || SameLetters(host, "localhost")) return true;
  if (std::ranges::any_of(names_, [&](const std::string& own) { return SameLetters(own, host); }))
    return true;
  return certified_ != nullptr && certified_(std::string(host));
}

std::optional<HttpRefusal> OwnNames::Check(const RequestHead& head) const {
  const std::string_view authority = head.Header("host");
  // A probe may speak HTTP/1.0 and name no host. Browsers always name one.
  if (!(head.http_1_0 && authority.empty()) && !Knows(WithoutPort(authority))) {
    return HttpRefusal{421, "'" + std::string(WithoutPort(authority).substr(0, kMostShownOfName)) +
                                "' is not known to be a name of this host: use its address, or a name in its "
                                "certificate, in --advertise, or before the port that it listens on"};
  }
  if (!head.headers.contains("origin")) return std::nullopt;
  const std::string_view origin = head.Header("origin");
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && SameLetters(origin.substr(scheme.size()), authority))
      return std::nullopt;
  }
  return HttpRefusal{403, "the request is from a page of another origin"};
}

}  // namespace leat::net
