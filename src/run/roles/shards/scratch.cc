#include "run/roles/shards/scratch.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "net/security/private_file.h"
#include "storage/checkpoint/file.h"

namespace leat::roles {
namespace {

constexpr const char* kPrefix = "leat-scratch-";

}  // namespace

Result<std::unique_ptr<Scratch>> Scratch::Make(const std::string& parent) {
  if (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST)
    return checkpoint::SystemError(parent, "make directory", errno);
  net::RemoveLeftFolders(parent, kPrefix);
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts; ++i) {
    const std::string path = parent + "/" + kPrefix + net::RandomHex(8);
    if (mkdir(path.c_str(), 0700) != 0) return checkpoint::SystemError(path, "make directory", errno);
    if (auto lock = net::LockFolder(path); lock.ok())
      return std::unique_ptr<Scratch>(new Scratch(path, std::move(lock)));
  }
  return Status(Code::kInternal, parent + ": a directory made in it cannot be locked");
}

Result<std::string> ScratchParent(const std::string& given, const std::string& why) {
  if (!given.empty()) return given;
  const char* temporary = std::getenv("TMPDIR");
  if (temporary != nullptr && *temporary != '\0') return std::string(temporary);
  return Status(Code::kInvalidArgument, why + ": set --scratch DIR or TMPDIR");
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace leat::roles
