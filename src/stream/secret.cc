#include "stream/secret.h"

#include <cstdlib>
#include <utility>

#include "base/path/paths.h"

namespace leat::stream {
namespace {

constexpr size_t kMaxSecretBytes = 64 << 10;

}  // namespace

Secret ReadSecret(const Config& config, const std::string& setting) {
  config.Allow({"env", "file"});
  Secret secret{.setting = setting, .variable = config.String("env", ""), .file = config.String("file", "")};
  if (secret.variable.empty() == secret.file.empty())
    config.Fail("'" + setting +
                "' is read from a variable of the environment or from a file: {env: NAME} or {file: PATH}");
  return secret;
}

Result<std::string> ReadSecretValue(const Secret& secret) {
  if (!secret.variable.empty()) {
    const char* value = std::getenv(secret.variable.c_str());
    if (value != nullptr && *value != 0) return std::string(value);
    return Status(Code::kInvalidArgument,
                  "'" + secret.setting + "': the environment has no variable " + secret.variable);
  }
  LEAT_ASSIGN_OR_RETURN(std::string value,
                        ReadFirstBytes(secret.file, kMaxSecretBytes + 1).With("'" + secret.setting + "'"));
  if (value.size() > kMaxSecretBytes)
    return Status(Code::kInvalidArgument, "'" + secret.setting + "': " + secret.file + " has more than " +
                                              std::to_string(kMaxSecretBytes) + " bytes");
  while (!value.empty() && (value.back() == '\n' || value.back() == '\r')) value.pop_back();
  if (value.empty())
    return Status(Code::kInvalidArgument, "'" + secret.setting + "': " + secret.file + " is empty");
  return value;
}

}  // namespace leat::stream
