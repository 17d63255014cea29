// Credentials, and the signatures of requests by them (AWS Signature Version 4).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "net/http_client/http_client.h"
#include "storage/object_store/settings.h"

namespace leat::object_store {

// ---- signatures; all functions are pure

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

// ---- credentials

// Credentials from the places where AWS's tools look for them, in their order. Thread-safe.
class CredentialSource {
 public:
  // `http`: for credentials of a container or a machine.
  CredentialSource(Environment environment, std::unique_ptr<HttpClient> http)
      : environment_(std::move(environment)), http_(std::move(http)) {}

  // The first that there are:
  //   AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
  //   AWS_WEB_IDENTITY_TOKEN_FILE with AWS_ROLE_ARN, by the region's security token service
  //   ~/.aws/credentials, and ~/.aws/config, with AWS_PROFILE
  //   AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI
  //   the machine's instance profile (IMDSv2), unless AWS_EC2_METADATA_DISABLED is true
  // They are kept until five minutes before they expire, or until the store refuses them. `now`: seconds
  // since 1970. kPermissionDenied, with one line without secrets, if there are none.
  Result<Credentials> Get(int64_t now, const std::string& region);
  // The store says that they have expired.
  void Forget();
  // The store does not know these, for instance because a file has others since. True if there are others
  // now, which Get returns.
  bool Replace(const Credentials& refused, const std::string& region);

 private:
  Result<Credentials> Find(const std::string& region);
  Result<Credentials> FromWebIdentity(const std::string& file, const std::string& region);
  Result<Credentials> FromContainer(const std::string& url);
  Result<Credentials> FromMachine();

  const Environment environment_;
  std::mutex mutex_;
  std::unique_ptr<HttpClient> http_;
  std::optional<Credentials> known_;
};

// Seconds since 1970 of "2030-01-02T03:04:05Z"; none: it is no such time. Pure.
std::optional<int64_t> ParseTime(const std::string& text);
// The JSON object that containers and machines answer with. Pure.
Result<Credentials> ParseCredentials(ByteView json);

}  // namespace leat::object_store
