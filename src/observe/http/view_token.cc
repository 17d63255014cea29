#include "observe/http/view_token.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "base/check.h"

namespace leat::observe {
namespace {

// The handshake of roles uses the same key with other labels (wire/handshake.cc).
constexpr std::string_view kLabel = "leat view token 1";

}  // namespace

std::string ViewToken(std::string_view token) {
  std::array<unsigned char, 32> digest;
  LEAT_CHECK(HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()),
                  reinterpret_cast<const unsigned char*>(kLabel.data()), kLabel.size(), digest.data(),
                  nullptr) != nullptr);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool SameSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace leat::observe
