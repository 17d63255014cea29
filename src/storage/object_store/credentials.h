// Credentials from the places where AWS's tools look for them, in their order.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "storage/object_store/settings.h"
#include "storage/object_store/sigv4.h"

namespace leat::object_store {

// Thread-safe.
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
