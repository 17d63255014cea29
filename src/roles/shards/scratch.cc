#include "roles/shards/scratch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "checkpoint/file.h"
#include "net/security/private_file.h"

namespace leat::roles {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "leat-scratch-";

// Opens and locks a directory of this user. Returns -1 if it is not there, not this user's, or in use.
int Lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  struct stat opened, named;
  // Between its creation and its lock another process may take a directory for a left one and remove it.
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &opened) == 0 && opened.st_uid == geteuid() &&
      lstat(path.c_str(), &named) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev) {
    return fd;
  }
  close(fd);
  return -1;
}

void RemoveLeft(const std::string& parent) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(kPrefix)) found.push_back(it->path().string());
  }
  for (const std::string& path : found) {
    const int lock = Lock(path);
    if (lock < 0) continue;
    fs::remove_all(path, error);
    close(lock);
  }
}

}  // namespace

Result<std::unique_ptr<Scratch>> Scratch::Make(const std::string& parent) {
  if (mkdir(parent.c_str(), 0700) != 0 && errno != EEXIST)
    return checkpoint::SystemError(parent, "make directory", errno);
  RemoveLeft(parent);
  constexpr int kAttempts = 100;
  for (int i = 0; i < kAttempts; ++i) {
    const std::string path = parent + "/" + kPrefix + net::RandomHex(8);
    if (mkdir(path.c_str(), 0700) != 0) return checkpoint::SystemError(path, "make directory", errno);
    if (const int lock = Lock(path); lock >= 0) return std::unique_ptr<Scratch>(new Scratch(path, lock));
  }
  return Status(Code::kInternal, parent + ": a directory made in it cannot be locked");
}

Scratch::~Scratch() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

}  // namespace leat::roles
