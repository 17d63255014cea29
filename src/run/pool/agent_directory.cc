#include "run/pool/agent_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "run/pool/pool_id.h"

namespace leat::pool {
namespace {

constexpr const char* kAgentLock = "agent.lock";
constexpr const char* kPool = "pool";

// Ok if it has an agent's lock, or nothing.
Status CheckAgentDirectory(const std::string& directory) {
  if (checkpoint::Exists(directory + "/" + kAgentLock)) return {};
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name == "lost+found") continue;  // in the root of a disk
    return {Code::kFailedPrecondition,
            directory + ": has '" + name + "' and is no agent's; an agent needs a new or empty directory"};
  }
  return error ? checkpoint::SystemError(directory, "read", error.value()) : Status();
}

// Agents end with all their processes, so nobody uses these any more.
void RemoveLeftSecrets(const std::string& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> left;
  for (std::filesystem::directory_iterator at(directory + "/secrets", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    const bool job = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (job) left.push_back(at->path());
  }
  for (const auto& path : left) std::filesystem::remove_all(path, error);
}

}  // namespace

Result<checkpoint::File> OpenAgentDirectory(const std::string& directory) {
  LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(directory));
  LEAT_RETURN_IF_ERROR(CheckAgentDirectory(directory));
  LEAT_ASSIGN_OR_RETURN(auto lock, checkpoint::File::Open(directory + "/" + kAgentLock, O_RDWR | O_CREAT));
  if (flock(lock.fd(), LOCK_EX | LOCK_NB) != 0)
    return Status(Code::kFailedPrecondition, directory + ": another agent uses it");
  for (const char* part : {"jobs", "logs", "secrets"})
    LEAT_RETURN_IF_ERROR(checkpoint::MakeDirectory(directory + "/" + part));
  // Jobs go through these, and cannot list them.
  for (const char* part : {"", "/jobs", "/secrets"}) {
    const std::string path = directory + part;
    if (chmod(path.c_str(), 0711) != 0) return checkpoint::SystemError(path, "change mode", errno);
  }
  RemoveLeftSecrets(directory);
  return lock;
}

Result<std::string> PoolOfAgentDirectory(const std::string& directory) {
  auto pool = ReadPoolId(directory + "/" + kPool);
  if (pool.status().code() != Code::kNotFound) return pool;
  std::error_code error;
  const bool empty = std::filesystem::is_empty(directory + "/jobs", error);
  if (error) return checkpoint::SystemError(directory + "/jobs", "read", error.value());
  if (empty) return std::string();
  return Status(Code::kFailedPrecondition,
                directory + ": has jobs of an unknown pool; copy the file 'id' of that pool's directory to " +
                    directory + "/" + kPool + ", or give the agent a new or empty directory");
}

Status GiveAgentDirectory(const std::string& directory, const std::string& pool) {
  return WritePoolId(directory, kPool, pool);
}

Status ProbeAgentDirectory(const std::string& directory) {
  constexpr size_t kProbe = 64 << 10;
  constexpr const char* kName = "probe";
  // root may write into the space that is reserved for it, and jobs may not. Some file systems count nothing.
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) == 0 && disk.f_blocks > 0 &&
      (disk.f_bavail * disk.f_frsize < kProbe || (disk.f_files > 0 && disk.f_favail == 0)))
    return checkpoint::SystemError(directory, "write", ENOSPC);
  const Status written = checkpoint::ReplaceFile(directory, kName, std::vector<std::byte>(kProbe));
  std::error_code ignored;
  std::filesystem::remove(directory + "/" + kName, ignored);
  return written;
}

}  // namespace leat::pool
