#include "net/neighbour.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <utility>

namespace leat::net {
namespace {

constexpr uint32_t kLongestBootId = 64;

// Of this run of this kernel.
std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id.substr(0, kLongestBootId);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  const int fd_;
};

}  // namespace

Hideout::Hideout() {
  if (getrandom(secret_.data(), secret_.size(), 0) != static_cast<ssize_t>(secret_.size())) return;
  const int fd = memfd_create("leat", MFD_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, secret_.data(), secret_.size()) == static_cast<ssize_t>(secret_.size())) {
    fd_ = fd;
  } else {
    close(fd);
  }
}

Hideout::~Hideout() {
  if (fd_ >= 0) close(fd_);
}

void Hideout::Describe(ByteWriter& out) const {
  struct stat at {};
  if (fd_ >= 0) fstat(fd_, &at);
  out.PutString(BootId());
  out.Put(static_cast<int32_t>(getpid()));
  out.Put(static_cast<int32_t>(fd_));
  out.Put(static_cast<uint64_t>(at.st_dev));
  out.Put(static_cast<uint64_t>(at.st_ino));
}

std::optional<Neighbour> FindNeighbour(ByteReader& description) {
  const std::string boot = description.GetString(kLongestBootId);
  const auto pid = description.Get<int32_t>();
  const auto number = description.Get<int32_t>();
  const auto device = description.Get<uint64_t>();
  const auto inode = description.Get<uint64_t>();
  if (!description.ok() || pid <= 0 || number < 0 || boot.empty() || boot != BootId()) return std::nullopt;
  // Opened for nothing at first, which does nothing to whatever it may be; read when it is the memory meant.
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  const Descriptor place(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat at {};
  if (place < 0 || fstat(place, &at) != 0 || !S_ISREG(at.st_mode) || at.st_uid != geteuid() ||
      at.st_dev != device || at.st_ino != inode || at.st_size != static_cast<off_t>(sizeof(Secret))) {
    return std::nullopt;
  }
  const Descriptor file(open(("/proc/self/fd/" + std::to_string(place)).c_str(), O_RDONLY | O_CLOEXEC));
  Neighbour found{.pid = pid};
  auto& secret = found.secret;
  if (file < 0 || pread(file, secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return std::nullopt;
  }
  return found;
}

}  // namespace leat::net
