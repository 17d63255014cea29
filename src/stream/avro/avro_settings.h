// The `avro:` of a job's schema: where the schemas of writers are.
//
//   avro: {schema: payment.avsc}               # records without framing
//   avro: {registry: schemas}                  # framed (framing.h): a folder of files ID.avsc
//   avro: {registry: {7: payment-v1.avsc, 9: payment-v2.avsc}}
//   avro: {registry: https://registry:8081}    # GET /schemas/ids/ID
//   avro:
//     registry:
//       url: https://registry:8081
//       basic.auth.user.info: {env: REGISTRY_USER}   # user:password; or {file: PATH}
//       ssl.ca.location: /etc/ssl/registry-ca.pem    # default: the system's
//       ssl.certificate.location: client.pem
//       ssl.key.location: client.key
//       ssl.key.password: {file: PATH}
//       timeout_s: 10
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/config/config.h"
#include "stream/secret.h"

namespace leat::stream {

// A schema registry, reached by HTTP.
struct RegistryOptions {
  std::string url;  // without a slash at its end
  std::optional<Secret> user;
  std::string ca, certificate, key;  // paths
  std::optional<Secret> key_password;
  Duration timeout = std::chrono::seconds(10);  // for which an unknown id is asked for again
};

// The texts of schemas by their ids; that of records without framing has the id 0.
using AvroTexts = std::map<uint32_t, std::string>;

struct AvroSettings {
  std::string where;  // "job.yaml:14"
  // Source of the schemas: one of these.
  std::string file;
  std::string folder;
  std::map<uint32_t, std::string> files;
  std::optional<RegistryOptions> registry;
  // Contents of the files, if there are some.
  AvroTexts texts;

  bool framed() const { return file.empty(); }

  // Throws std::invalid_argument with the line and the values.
  static AvroSettings FromConfig(const Config& config);
};

}  // namespace leat::stream
