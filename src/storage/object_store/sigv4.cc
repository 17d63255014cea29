#include "storage/object_store/sigv4.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <span>

#include "base/encoding/printable.h"
#include "base/text.h"

namespace leat::object_store {
namespace {

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

Digest Hmac(std::string_view key, std::string_view text) {
  Digest digest;
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  return digest;
}

std::string_view View(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Runs of spaces count as one, and none at the ends.
std::string Squeezed(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c != ' ' || (!text.empty() && text.back() != ' ')) text += c;
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

Fields Sorted(Fields fields) {
  std::ranges::sort(fields);
  return fields;
}

std::string SignedHeaders(const RequestToSign& request) {
  return Joined(Sorted(request.headers), ";", &Fields::value_type::first);
}

std::string CredentialScope(const Scope& scope, const std::string& date) {
  return date.substr(0, 8) + "/" + scope.region + "/" + scope.service + "/aws4_request";
}

}  // namespace

std::string UriEncode(std::string_view text, bool slashes) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = IsWord({&c, 1}, 1, slashes ? "-_.~/" : "-_.~");
    encoded += plain ? std::string(1, c) : Formatted("%%%02X", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string Sha256Hex(std::string_view text) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return ToHex(std::as_bytes(std::span(digest)));
}

std::string CanonicalQuery(const Fields& query) {
  Fields encoded;
  for (const auto& [name, value] : query)
    encoded.emplace_back(UriEncode(name, false), UriEncode(value, false));
  std::string text;
  for (const auto& [name, value] : Sorted(std::move(encoded)))
    text += (text.empty() ? "" : "&") + name + "=" + value;
  return text;
}

std::string CanonicalRequest(const RequestToSign& request) {
  std::string text = request.method + "\n" + request.path + "\n" + CanonicalQuery(request.query) + "\n";
  for (const auto& [name, value] : Sorted(request.headers)) text += name + ":" + Squeezed(value) + "\n";
  return text + "\n" + SignedHeaders(request) + "\n" + request.payload_hash;
}

std::string StringToSign(const RequestToSign& request, const Scope& scope, const std::string& date) {
  return "AWS4-HMAC-SHA256\n" + date + "\n" + CredentialScope(scope, date) + "\n" +
         Sha256Hex(CanonicalRequest(request));
}

std::string Authorization(const RequestToSign& request, const Credentials& credentials, const Scope& scope,
                          const std::string& date) {
  const Digest day = Hmac("AWS4" + credentials.secret_key, date.substr(0, 8));
  const Digest region = Hmac(View(day), scope.region);
  const Digest service = Hmac(View(region), scope.service);
  const Digest key = Hmac(View(service), "aws4_request");
  return "AWS4-HMAC-SHA256 Credential=" + credentials.access_key + "/" + CredentialScope(scope, date) +
         ",SignedHeaders=" + SignedHeaders(request) +
         ",Signature=" + ToHex(View(Hmac(View(key), StringToSign(request, scope, date))));
}

std::string AmzDate(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[20];
  std::strftime(text, sizeof(text), "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

}  // namespace leat::object_store
