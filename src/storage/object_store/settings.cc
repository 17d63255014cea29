#include "storage/object_store/settings.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "base/text.h"

namespace leat::object_store {
namespace {

constexpr size_t kMaxPrefix = 512;  // keys have at most 1024 bytes

bool IsBucketCharacter(char c) {
  return IsLetterOrDigit(c) || c == '-' || c == '.' || c == '_';
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::string FileOf(const Environment& environment, const char* variable, const char* name) {
  if (const auto path = environment(variable)) return ReadText(*path);
  const auto home = environment("HOME");
  return home ? ReadText(*home + "/.aws/" + name) : "";
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) return std::nullopt;
    return std::string(value);
  };
}

Result<Settings> ParseLocation(const std::string& text) {
  constexpr std::string_view kScheme = "s3://";
  const auto bad = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, "'" + text + "' is not s3://BUCKET/PREFIX: " + why);
  };
  if (!text.starts_with(kScheme)) return bad("it begins differently");
  const std::string rest = text.substr(kScheme.size());
  Settings settings;
  settings.bucket = rest.substr(0, rest.find('/'));
  if (settings.bucket.size() < 3 || settings.bucket.size() > 63 ||
      !std::ranges::all_of(settings.bucket, IsBucketCharacter)) {
    return bad("a bucket has 3 to 63 letters, digits, '-' and '.'");
  }
  if (settings.bucket.size() < rest.size()) settings.prefix = rest.substr(settings.bucket.size() + 1);
  while (settings.prefix.ends_with('/')) settings.prefix.pop_back();
  if (settings.prefix.starts_with('/') || settings.prefix.find("//") != std::string::npos)
    return bad("the prefix has an empty part");
  if (settings.prefix.size() > kMaxPrefix)
    return bad("the prefix has more than " + std::to_string(kMaxPrefix) + " bytes");
  for (std::string_view parts = settings.prefix; !parts.empty();) {
    const std::string part(TakeUntil("/", &parts));
    if (part == "." || part == "..") return bad("the prefix has the part '" + part + "'");
  }
  if (std::ranges::any_of(settings.prefix,
                          [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
    return bad("the prefix has a control character");
  return settings;
}

std::string Location(const Settings& settings) {
  return "s3://" + settings.bucket + (settings.prefix.empty() ? "" : "/" + settings.prefix);
}

Status CheckEndpoint(const std::string& endpoint) {
  const size_t scheme = endpoint.starts_with("https://") ? 8 : endpoint.starts_with("http://") ? 7 : 0;
  const std::string host = endpoint.substr(scheme);
  const bool plain = !host.empty() && std::ranges::all_of(host, [](char c) {
    return IsBucketCharacter(c) || c == ':' || c == '[' || c == ']';
  });
  if (scheme > 0 && plain) return {};
  return {Code::kInvalidArgument, "'" + endpoint + "' is not http://HOST[:PORT] or https://HOST[:PORT]"};
}

std::optional<std::string> ProfileValue(const std::string& text, const std::string& section,
                                        const std::string& key) {
  bool inside = false;
  for (std::string_view rest = text; !rest.empty();) {
    std::string_view line = TakeUntil("\n", &rest);
    // Indented lines belong to a nested section.
    if (line.starts_with(' ') || line.starts_with('\t')) continue;
    line = Trimmed(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      inside = line.back() == ']' && Trimmed(line.substr(1, line.size() - 2)) == section;
    } else if (inside && Trimmed(TakeUntil("=", &line)) == key && !Trimmed(line).empty()) {
      return std::string(Trimmed(line));
    }
  }
  return std::nullopt;
}

std::string CredentialsFile(const Environment& environment) {
  return FileOf(environment, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
}

std::string ConfigFile(const Environment& environment) {
  return FileOf(environment, "AWS_CONFIG_FILE", "config");
}

Result<Settings> Resolve(Settings settings, const Environment& environment) {
  const std::string config = ConfigFile(environment);
  const std::string profile = environment("AWS_PROFILE").value_or("default");
  const std::string section = profile == "default" ? profile : "profile " + profile;
  const auto fill = [](std::string* setting, const std::optional<std::string>& value) {
    if (setting->empty() && value) *setting = *value;
  };
  fill(&settings.endpoint, environment("AWS_ENDPOINT_URL_S3"));
  fill(&settings.endpoint, environment("AWS_ENDPOINT_URL"));
  fill(&settings.endpoint, ProfileValue(config, section, "endpoint_url"));
  fill(&settings.region, environment("AWS_REGION"));
  fill(&settings.region, environment("AWS_DEFAULT_REGION"));
  fill(&settings.region, ProfileValue(config, section, "region"));
  fill(&settings.region, "us-east-1");
  fill(&settings.ca, environment("AWS_CA_BUNDLE"));
  if (!std::ranges::all_of(settings.region, IsBucketCharacter))
    return Status(Code::kInvalidArgument, "'" + settings.region + "' is not a region");
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (!settings.path_style) settings.path_style = !settings.endpoint.empty();
  if (settings.endpoint.empty()) settings.endpoint = "https://s3." + settings.region + ".amazonaws.com";
  LEAT_RETURN_IF_ERROR(CheckEndpoint(settings.endpoint));
  return settings;
}

BucketAddress AddressOf(const Settings& resolved) {
  BucketAddress address;
  const size_t slashes = resolved.endpoint.find("://");
  address.scheme = resolved.endpoint.substr(0, slashes);
  address.host = resolved.endpoint.substr(slashes + 3);
  // The Host header does not name the usual port.
  const std::string usual = address.scheme == "https" ? ":443" : ":80";
  if (address.host.ends_with(usual)) address.host.resize(address.host.size() - usual.size());
  if (resolved.path_style.value_or(true)) {
    address.path = "/" + resolved.bucket;
  } else {
    address.host = resolved.bucket + "." + address.host;
  }
  return address;
}

}  // namespace leat::object_store
