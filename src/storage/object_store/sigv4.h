// AWS Signature Version 4. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/http_client/http_client.h"

namespace leat::object_store {

struct Credentials {
  std::string access_key;
  std::string secret_key;
  std::string session_token;  // empty: none
  int64_t expires = 0;        // seconds since 1970; 0: never
  friend bool operator==(const Credentials&, const Credentials&) = default;
};

// The payload's hash for a body whose bytes the signature does not cover.
inline constexpr const char* kUnsignedPayload = "UNSIGNED-PAYLOAD";

// Percent-encoding of RFC 3986, in upper case. `slashes`: '/' stays as it is.
std::string UriEncode(std::string_view text, bool slashes);
// Lower-case hexadecimal digits.
std::string Sha256Hex(std::string_view text);

using net::HttpClient;
using Fields = HttpClient::Fields;

struct RequestToSign {
  std::string method;
  std::string path = "/";  // encoded once, as it is sent
  Fields query;            // not encoded
  Fields headers;          // all are signed; "host" and "x-amz-date" are among them; names in lower case
  std::string payload_hash;
};
struct Scope {
  std::string region;
  std::string service;
};

// "a=1&b=2": sorted and encoded.
std::string CanonicalQuery(const Fields& query);
std::string CanonicalRequest(const RequestToSign& request);
// `date` is as in x-amz-date: "20130524T000000Z".
std::string StringToSign(const RequestToSign& request, const Scope& scope, const std::string& date);
// The value of the Authorization header.
std::string Authorization(const RequestToSign& request, const Credentials& credentials, const Scope& scope,
                          const std::string& date);
// Seconds since 1970 as in x-amz-date.
std::string AmzDate(int64_t seconds);

}  // namespace leat::object_store
