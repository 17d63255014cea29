// Who may call a listener, and from which pages. Thread-safe.
//
// A browser sends a user's cookies and certificate with the requests of any page. A page of somebody else is
// kept out by the names under which the listener may be called, by the origin of the request
// (net/http/own_names.h), and by cookies that other pages cannot use.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http/own_names.h"
#include "net/http/request_head.h"
#include "net/security/certificate_roles.h"
#include "net/tls/tls_identity.h"

namespace leat::observe {

class Access {
 public:
  struct Options {
    std::string view_token;
    // The address of the listener, and more names of this host (OwnNames).
    std::string address = "";
    std::vector<std::string> hosts;
    std::shared_ptr<net::TlsIdentity> tls = nullptr;  // null: no TLS
    uint16_t port = 0;                                // of the listener
  };
  explicit Access(Options options);

  // Checks the headers Host and Origin. A refused request is answered so, whatever it asks for.
  std::optional<net::HttpRefusal> Check(const net::RequestHead& head) const { return names_.Check(head); }

  // Whether the request has the view token, as "Authorization: Bearer" or as the cookie, or comes from an
  // owner of an observer's certificate. `peer`: the roles of the certificate, which has been verified.
  bool Authorised(const net::RequestHead& head, net::CertificateRoles peer) const;

  // The value of Set-Cookie that makes a browser authorised.
  std::string SetCookie() const;

 private:
  const Options options_;
  const net::OwnNames names_;
  const std::string cookie_;  // its name: cookies do not distinguish the ports of a host
};

}  // namespace leat::observe
