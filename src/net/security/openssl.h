// Owners of OpenSSL's objects. Internal to net.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string_view>
#include <vector>

#include "net/security/certificate_roles.h"

namespace leat::net::openssl {

template <auto kFree>
struct Freer {
  template <class T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Freer<SSL_CTX_free>>;

// Null for text that is no certificate, or no key without a password, in PEM.
Certificate ParseCertificate(std::string_view pem);
Key ParseKey(std::string_view pem);
// A certificate and those that follow it; empty if the first one is none.
using Chain = std::vector<Certificate>;
Chain ParseChain(std::string_view pem);

// The roles that a certificate names. Unknown ones are ignored.
CertificateRoles RolesOf(const X509* certificate);

}  // namespace leat::net::openssl
