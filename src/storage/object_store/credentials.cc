#include "storage/object_store/credentials.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "base/encoding/printable.h"
#include "base/json/text.h"
#include "base/path/paths.h"
#include "base/text.h"
#include "storage/object_store/replies.h"

namespace leat::object_store {

// ---- signatures

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

// ---- credentials

namespace {

constexpr int64_t kBeforeExpiry = 300;
constexpr Duration kTimeout = std::chrono::seconds(5);
// There is no such machine in most networks.
constexpr Duration kMachineTimeout = std::chrono::seconds(1);
constexpr const char* kContainerHost = "http://169.254.170.2";
constexpr const char* kMachineHost = "http://169.254.169.254";

Result<std::string> ReadSecret(const std::string& path) {
  constexpr uint64_t kMost = 1 << 20;
  LEAT_ASSIGN_OR_RETURN(std::string text, ReadFirstBytes(path, kMost));
  while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
  if (text.empty()) return Status(Code::kPermissionDenied, path + ": is empty");
  return text;
}

std::optional<Credentials> FromProfile(const std::string& text, const std::string& section) {
  const auto key = ProfileValue(text, section, "aws_access_key_id");
  const auto secret = ProfileValue(text, section, "aws_secret_access_key");
  if (!key || !secret) return std::nullopt;
  return Credentials{*key, *secret, ProfileValue(text, section, "aws_session_token").value_or(""), 0};
}

}  // namespace

std::optional<int64_t> ParseTime(const std::string& text) {
  std::tm parts{};
  const char* end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr || (*end != 'Z' && *end != '.' && *end != '+')) return std::nullopt;
  return timegm(&parts);
}

Result<Credentials> ParseCredentials(ByteView json) {
  const auto parsed = ParsedJson(AsText(json));
  const auto text = [&](const char* key) -> std::string {
    const auto at = parsed.find(key);
    return at != parsed.end() && at->is_string() ? at->get<std::string>() : "";
  };
  if (!parsed.is_object()) return Status(Code::kPermissionDenied, "the reply is no JSON object");
  Credentials found{text("AccessKeyId"), text("SecretAccessKey"), text("Token"), 0};
  if (found.access_key.empty() || found.secret_key.empty())
    return Status(Code::kPermissionDenied, "the reply has no credentials");
  found.expires = ParseTime(text("Expiration")).value_or(0);
  return found;
}

Result<Credentials> CredentialSource::Get(int64_t now, const std::string& region) {
  std::lock_guard lock(mutex_);
  if (known_ && (known_->expires == 0 || now < known_->expires - kBeforeExpiry)) return *known_;
  auto found = Find(region);
  if (found.ok()) known_ = *found;
  // The old ones may be good for a while.
  if (!found.ok() && known_ && now < known_->expires) return *known_;
  return found;
}

void CredentialSource::Forget() {
  std::lock_guard lock(mutex_);
  known_.reset();
}

bool CredentialSource::Replace(const Credentials& refused, const std::string& region) {
  std::lock_guard lock(mutex_);
  if (known_ && *known_ != refused) return true;  // another request was first
  auto found = Find(region);
  if (!found.ok() || *found == refused) return false;
  known_ = std::move(*found);
  return true;
}

Result<Credentials> CredentialSource::Find(const std::string& region) {
  const auto key = environment_("AWS_ACCESS_KEY_ID");
  const auto secret = environment_("AWS_SECRET_ACCESS_KEY");
  if (key && secret) return Credentials{*key, *secret, environment_("AWS_SESSION_TOKEN").value_or(""), 0};
  if (key || secret) {
    return Status(Code::kPermissionDenied,
                  std::string(key ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY") + " is set, but " +
                      (key ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID") + " is not");
  }
  if (const auto file = environment_("AWS_WEB_IDENTITY_TOKEN_FILE")) return FromWebIdentity(*file, region);
  const auto profile = environment_("AWS_PROFILE");
  const std::string name = profile.value_or("default");
  if (const auto found = FromProfile(CredentialsFile(environment_), name)) return *found;
  if (const auto found = FromProfile(ConfigFile(environment_), name == "default" ? name : "profile " + name))
    return *found;
  if (profile) return Status(Code::kPermissionDenied, "the profile '" + *profile + "' has no credentials");
  if (const auto path = environment_("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"))
    return FromContainer(kContainerHost + *path);
  if (const auto url = environment_("AWS_CONTAINER_CREDENTIALS_FULL_URI")) return FromContainer(*url);
  if (environment_("AWS_EC2_METADATA_DISABLED").value_or("") != "true") {
    if (auto found = FromMachine(); found.ok()) return found;
  }
  return Status(Code::kPermissionDenied,
                "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for "
                "~/.aws/credentials");
}

Result<Credentials> CredentialSource::FromWebIdentity(const std::string& file, const std::string& region) {
  const auto role = environment_("AWS_ROLE_ARN");
  if (!role)
    return Status(Code::kPermissionDenied, "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
  LEAT_ASSIGN_OR_RETURN(const std::string token, ReadSecret(file));
  const std::string host =
      environment_("AWS_ENDPOINT_URL_STS").value_or("https://sts." + region + ".amazonaws.com");
  const std::string body =
      CanonicalQuery({{"Action", "AssumeRoleWithWebIdentity"},
                      {"Version", "2011-06-15"},
                      {"RoleArn", *role},
                      {"RoleSessionName", environment_("AWS_ROLE_SESSION_NAME").value_or("leat")},
                      {"WebIdentityToken", token}});
  LEAT_ASSIGN_OR_RETURN(const HttpClient::Reply reply,
                        http_->Do({.method = "POST",
                                   .url = host + "/",
                                   .headers = {{"content-type", "application/x-www-form-urlencoded"}},
                                   .body = AsBytes(body),
                                   .timeout = kTimeout}));
  if (reply.status != 200) {
    const ErrorReply error = ParseError(reply.body);
    return Status(
        reply.status >= 500 ? Code::kUnavailable : Code::kPermissionDenied,
        host + ": " + error.code + ": " + error.message + " (HTTP " + std::to_string(reply.status) + ")");
  }
  LEAT_ASSIGN_OR_RETURN(const Element parsed, ParseXml(reply.body));
  for (const Element& result : parsed.children) {
    for (const Element& found : result.children) {
      if (found.name != "Credentials") continue;
      Credentials made{found.Text("AccessKeyId"), found.Text("SecretAccessKey"), found.Text("SessionToken"),
                       ParseTime(found.Text("Expiration")).value_or(0)};
      if (!made.access_key.empty() && !made.secret_key.empty()) return made;
    }
  }
  return Status(Code::kPermissionDenied, host + ": the reply has no credentials");
}

Result<Credentials> CredentialSource::FromContainer(const std::string& url) {
  HttpClient::Request request{.method = "GET", .url = url, .timeout = kTimeout};
  if (const auto file = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    LEAT_ASSIGN_OR_RETURN(std::string token, ReadSecret(*file));
    request.headers.emplace_back("authorization", std::move(token));
  } else if (const auto token = environment_("AWS_CONTAINER_AUTHORIZATION_TOKEN")) {
    request.headers.emplace_back("authorization", *token);
  }
  LEAT_ASSIGN_OR_RETURN(const HttpClient::Reply reply, http_->Do(request));
  if (reply.status != 200)
    return Status(Code::kPermissionDenied,
                  "the container's credentials: HTTP " + std::to_string(reply.status));
  return ParseCredentials(reply.body);
}

Result<Credentials> CredentialSource::FromMachine() {
  const std::string host = environment_("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or(kMachineHost);
  const auto ask = [&](const char* method, const std::string& path, Fields headers) -> Result<std::string> {
    LEAT_ASSIGN_OR_RETURN(const HttpClient::Reply reply, http_->Do({.method = method,
                                                                    .url = host + path,
                                                                    .headers = std::move(headers),
                                                                    .timeout = kMachineTimeout}));
    if (reply.status != 200)
      return Status(Code::kPermissionDenied, host + ": HTTP " + std::to_string(reply.status));
    return std::string(AsText(reply.body));
  };
  LEAT_ASSIGN_OR_RETURN(const std::string token,
                        ask("PUT", "/latest/api/token", {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}}));
  const Fields headers = {{"x-aws-ec2-metadata-token", token}};
  const std::string folder = "/latest/meta-data/iam/security-credentials/";
  LEAT_ASSIGN_OR_RETURN(std::string role, ask("GET", folder, headers));
  role.resize(std::min(role.find_first_of("\r\n"), role.size()));
  LEAT_ASSIGN_OR_RETURN(const std::string json, ask("GET", folder + UriEncode(role, false), headers));
  return ParseCredentials(AsBytes(json));
}

}  // namespace leat::object_store
