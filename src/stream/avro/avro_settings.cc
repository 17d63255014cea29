#include "stream/avro/avro_settings.h"

#include "base/text.h"

namespace leat::stream {
namespace {

bool IsUrl(std::string_view text) {
  return text.find("://") != text.npos;
}

uint32_t IdFrom(const Config& map, const std::string& key) {
  const auto id = ToNumber<uint32_t>(key);
  if (!id) map.At(key).Fail("'" + key + "' is not the id of a schema, a whole number of 32 bits");
  return *id;
}

std::string UrlFrom(const Config& config) {
  std::string url = config.String();
  while (url.ends_with('/')) url.pop_back();
  const size_t scheme = url.find("://") + 3;
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    config.Fail("the registry is '" + url + "'; a URL begins with http:// or https://");
  if (url.substr(scheme, url.find('/', scheme) - scheme).find('@') != url.npos) {
    config.Fail(
        "the registry's URL has a user, and copies of the job would have it; name where it is: "
        "basic.auth.user.info: {env: NAME} or {file: PATH}");
  }
  return url;
}

std::optional<Secret> SecretFrom(const Config& config, const char* setting) {
  if (!config.Has(setting)) return std::nullopt;
  const Config value = config.At(setting);
  if (!value.IsMap()) {
    value.Fail("'" + std::string(setting) +
               "' is a secret, and copies of the job would have it; name where it is: {env: NAME} or {file: "
               "PATH}");
  }
  return ReadSecret(value, setting);
}

RegistryOptions RegistryFrom(const Config& config) {
  config.Allow({"url", "basic.auth.user.info", "ssl.ca.location", "ssl.certificate.location",
                "ssl.key.location", "ssl.key.password", "timeout_s"});
  RegistryOptions options{.url = UrlFrom(config.At("url"))};
  options.user = SecretFrom(config, "basic.auth.user.info");
  options.ca = config.String("ssl.ca.location", "");
  options.certificate = config.String("ssl.certificate.location", "");
  options.key = config.String("ssl.key.location", "");
  options.key_password = SecretFrom(config, "ssl.key.password");
  options.timeout = FromSeconds(config.Number("timeout_s", Seconds(options.timeout), 0.1, 600));
  return options;
}

}  // namespace

AvroSettings AvroSettings::FromConfig(const Config& config) {
  if (!config.IsMap()) config.Fail("avro must be a map, as {schema: FILE} or {registry: FOLDER or URL}");
  config.Allow({"schema", "registry"});
  AvroSettings avro{.where = config.where()};
  if (config.Has("schema") == config.Has("registry")) {
    config.Fail(
        "avro has either a schema, of records without framing, or a registry, of records that begin with a "
        "schema's id");
  }
  if (config.Has("schema")) {
    avro.file = config.At("schema").String();
    if (avro.file.empty()) config.At("schema").Fail("schema is the path of a file");
    return avro;
  }
  const Config registry = config.At("registry");
  if (!registry.IsMap()) {
    const std::string text = registry.String();
    if (text.empty()) registry.Fail("registry is the path of a folder, a URL, or a map from ids to files");
    if (IsUrl(text)) {
      avro.registry = RegistryOptions{.url = UrlFrom(registry)};
    } else {
      avro.folder = text;
    }
  } else if (registry.Has("url")) {
    avro.registry = RegistryFrom(registry);
  } else {
    for (const std::string& key : registry.Keys())
      avro.files[IdFrom(registry, key)] = registry.At(key).String();
    if (avro.files.empty()) registry.Fail("registry has no schemas");
  }
  return avro;
}

}  // namespace leat::stream
