#include "run/launcher/token.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "net/security/private_file.h"

namespace leat::launcher {
namespace {

constexpr size_t kTokenBytes = 16;

Result<std::filesystem::path> TokenFile() {
  const char* home = std::getenv("HOME");
  if (home == nullptr) {
    const passwd* user = getpwuid(getuid());
    home = user != nullptr ? user->pw_dir : "";
  }
  const std::filesystem::path folder(home);
  if (!folder.is_absolute()) {
    return Status(Code::kNotFound, "there is no home directory for the token file; set LEAT_TOKEN");
  }
  return folder / ".config/leat/token";
}

// The first line of what a token file has.
Result<std::string> FirstLine(const std::filesystem::path& path, const std::string& content) {
  std::string token = content.substr(0, content.find('\n'));
  if (!token.empty()) return token;
  return Status(Code::kInvalidArgument,
                path.string() + ": the token file is empty; remove it, or set LEAT_TOKEN");
}

}  // namespace

Result<std::string> UserToken() {
  if (const char* token = std::getenv("LEAT_TOKEN"); token != nullptr && *token != '\0')
    return std::string(token);
  if (const char* named = std::getenv("LEAT_TOKEN_FILE"); named != nullptr && *named != '\0') {
    const auto content = net::ReadPrivateFile(named);
    if (content.ok()) return FirstLine(named, *content);
    // A named token file must exist: a generated token would match no other process.
    const Code code = content.status().code();
    return Status(code == Code::kNotFound ? Code::kInvalidArgument : code,
                  "LEAT_TOKEN_FILE: " + content.status().message());
  }
  LEAT_ASSIGN_OR_RETURN(const auto path, TokenFile());
  auto content = net::ReadPrivateFile(path);
  if (content.status().code() == Code::kNotFound) {
    if (const Status created = net::CreatePrivateFile(path, RandomToken() + "\n"); !created.ok())
      return Status(Code::kNotFound, created.message() + "; set LEAT_TOKEN instead");
    content = net::ReadPrivateFile(path);
  }
  if (!content.ok()) return content.status();
  return FirstLine(path, *content);
}

std::string RandomToken() {
  return net::RandomHex(kTokenBytes);
}

}  // namespace leat::launcher
