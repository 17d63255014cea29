#include "observe/http/access.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "observe/http/view_token.h"

namespace leat::observe {
namespace {

constexpr std::string_view kBearer = "bearer ";
constexpr size_t kMaxShown = 100;  // of a name

bool SameText(std::string_view a, std::string_view b) {
  return Lower(a) == Lower(b);
}

// "[::1]:80" and "[::1]" are ::1, "name:80" is name.
std::string_view WithoutPort(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(1, authority.find(']') - 1);
  return authority.substr(0, authority.find(':'));
}

bool IsAddress(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, text.c_str(), &v4) == 1 || inet_pton(AF_INET6, text.c_str(), &v6) == 1;
}

std::string_view CookieOf(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    while (cookies.starts_with(' ')) cookies.remove_prefix(1);
    const size_t end = std::min(cookies.find(';'), cookies.size());
    const std::string_view cookie = cookies.substr(0, end);
    if (cookie.size() > name.size() && cookie.starts_with(name) && cookie[name.size()] == '=')
      return cookie.substr(name.size() + 1);
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
  }
  return {};
}

}  // namespace

Access::Access(Options options)
    : options_(std::move(options)), cookie_("leat-view-" + std::to_string(options_.port)) {
  LEAT_CHECK(!options_.view_token.empty());  // everyone would have it
}

bool Access::Knows(std::string_view host) const {
  if (IsAddress(host) || SameText(host, "localhost")) return true;
  if (std::ranges::any_of(options_.hosts, [&](const std::string& own) { return SameText(own, host); }))
    return true;
  return options_.tls != nullptr && options_.tls->IsFor(std::string(host));
}

std::optional<Access::Refusal> Access::Check(const RequestHead& head) const {
  const std::string_view authority = head.Header("host");
  // A probe may speak HTTP/1.0 and name no host. Browsers always name one.
  if (!(head.http_1_0 && authority.empty()) && !Knows(WithoutPort(authority))) {
    return Refusal{421, "'" + std::string(WithoutPort(authority).substr(0, kMaxShown)) +
                            "' is not known to be a name of this host: use its address, or a name in its "
                            "certificate, in --advertise, or before the port that it listens on"};
  }
  if (!head.headers.contains("origin")) return std::nullopt;
  const std::string_view origin = head.Header("origin");
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) && SameText(origin.substr(scheme.size()), authority)) return std::nullopt;
  }
  return Refusal{403, "the request is from a page of another origin"};
}

bool Access::Authorised(const RequestHead& head, net::CertificateRoles peer) const {
  if (peer.Has(net::CertificateRole::kObserver)) return true;
  const std::string_view given = head.Header("authorization");
  if (given.size() > kBearer.size() && SameText(given.substr(0, kBearer.size()), kBearer))
    return SameSecret(given.substr(kBearer.size()), options_.view_token);
  return SameSecret(CookieOf(head.Header("cookie"), cookie_), options_.view_token);
}

std::string Access::SetCookie() const {
  return cookie_ + "=" + options_.view_token + "; Path=/; HttpOnly; SameSite=Strict" +
         (options_.tls != nullptr ? "; Secure" : "");
}

}  // namespace leat::observe
