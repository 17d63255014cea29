#include "net/security/locked_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <vector>

namespace leat::net {

namespace fs = std::filesystem;

Descriptor LockFolder(const std::string& path) {
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat at {};
  // Without links, the path already belongs to another folder.
  const bool mine = folder.ok() && flock(folder.get(), LOCK_EX | LOCK_NB) == 0 &&
                    fstat(folder.get(), &at) == 0 && at.st_uid == geteuid() && at.st_nlink > 0;
  return mine ? std::move(folder) : Descriptor();
}

void RemoveLeftFolders(const std::string& parent, std::string_view prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path().string());
  }
  for (const std::string& path : found) {
    if (const Descriptor lock = LockFolder(path); lock.ok()) fs::remove_all(path, error);
  }
}

}  // namespace leat::net
