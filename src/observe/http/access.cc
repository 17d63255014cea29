#include "observe/http/access.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "observe/http/view_token.h"

namespace leat::observe {
namespace {

constexpr std::string_view kBearer = "bearer ";

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
    : options_(std::move(options)),
      names_(
          options_.hosts, options_.address,
          options_.tls == nullptr
              ? std::function<bool(const std::string&)>()
              : [tls = options_.tls](const std::string& name) { return tls->IsFor(name); }),
      cookie_("leat-view-" + std::to_string(options_.port)) {
  LEAT_CHECK(!options_.view_token.empty());  // everyone would have it
}

bool Access::Authorised(const net::RequestHead& head, net::CertificateRoles peer) const {
  if (peer.Has(net::CertificateRole::kObserver)) return true;
  const std::string_view given = head.Header("authorization");
  if (given.size() > kBearer.size() && net::Lower(given.substr(0, kBearer.size())) == kBearer)
    return SameSecret(given.substr(kBearer.size()), options_.view_token);
  return SameSecret(CookieOf(head.Header("cookie"), cookie_), options_.view_token);
}

std::string Access::SetCookie() const {
  return cookie_ + "=" + options_.view_token + "; Path=/; HttpOnly; SameSite=Strict" +
         (options_.tls != nullptr ? "; Secure" : "");
}

}  // namespace leat::observe
