// Where objects are: a bucket, a prefix in it, and the store that has the bucket.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/status.h"

namespace leat::object_store {

// Reads an environment variable; none: it is not set, or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;
// The environment of this process.
Environment ProcessEnvironment();

struct Settings {
  std::string bucket;
  std::string prefix;              // without '/' at either end; empty: the whole bucket
  std::string endpoint;            // "https://host:port"; empty: AWS in this region
  std::string region;              // empty: of the environment or the profile, else us-east-1
  std::optional<bool> path_style;  // none: with an endpoint of one's own
  std::string ca;            // file of certificates that the endpoint's is checked by; empty: the system's
  uint32_t connections = 4;  // connections of an upload or download
  uint64_t part_bytes = 16 << 20;  // size of the parts of a multipart upload
  friend bool operator==(const Settings&, const Settings&) = default;
};

// "s3://bucket/prefix" into bucket and prefix: kInvalidArgument, with the text, if it is not one.
Result<Settings> ParseLocation(const std::string& text);
// "s3://bucket/prefix".
std::string Location(const Settings& settings);
// kInvalidArgument unless it is http:// or https:// with a host, and nothing after it but a port.
Status CheckEndpoint(const std::string& endpoint);

// A file of AWS's tools ("[profile x]", "key = value"). The value of a key in a section; none: there is none.
// Pure.
std::optional<std::string> ProfileValue(const std::string& text, const std::string& section,
                                        const std::string& key);
// The text of ~/.aws/credentials or ~/.aws/config, or of the files named by AWS_SHARED_CREDENTIALS_FILE and
// AWS_CONFIG_FILE; empty: there is none.
std::string CredentialsFile(const Environment& environment);
std::string ConfigFile(const Environment& environment);

// Fills the empty fields of `settings` from AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, AWS_REGION,
// AWS_DEFAULT_REGION, AWS_CA_BUNDLE, and the profile AWS_PROFILE of the config file. kInvalidArgument for an
// invalid endpoint.
Result<Settings> Resolve(Settings settings, const Environment& environment);

// Host and path of the bucket, as requests name it.
struct BucketAddress {
  std::string scheme;  // "https"
  std::string host;    // with its port: the Host header, which is signed
  std::string path;    // "/bucket", or empty
};
BucketAddress AddressOf(const Settings& resolved);

}  // namespace leat::object_store
