#include "show/http/access.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <span>

#include "base/check.h"
#include "base/encoding/printable.h"

namespace leat::observe {

namespace {

// The handshake of roles uses the same key with other labels (net/frames/handshake.cc).
constexpr std::string_view kLabel = "leat view token 1";

}  // namespace

std::string ViewToken(std::string_view token) {
  std::array<unsigned char, 32> digest;
  LEAT_CHECK(HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                  reinterpret_cast<const unsigned char*>(kLabel.data()), kLabel.size(), digest.data(),
                  nullptr) != nullptr);
  return ToHex(std::as_bytes(std::span(digest)));
}

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace leat::observe
