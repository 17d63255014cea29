#include "net/same_host/descriptor.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

namespace leat::net {

std::optional<PeerFile> OpenPeerFile(pid_t pid, int32_t number, uint64_t device, uint64_t inode) {
  // O_PATH first: it has no side effects, whatever the file is.
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  const Descriptor found(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat at {};
  if (!found.ok() || fstat(found.get(), &at) != 0 || !S_ISREG(at.st_mode) || at.st_uid != geteuid() ||
      at.st_dev != device || at.st_ino != inode) {
    return std::nullopt;
  }
  Descriptor file(open(("/proc/self/fd/" + std::to_string(found.get())).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return std::nullopt;
  return PeerFile{std::move(file), static_cast<uint64_t>(at.st_size)};
}

}  // namespace leat::net
