// Descriptors of this process, and the files that others have open.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace leat::net {

// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }

  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }
  // The caller's to close from now on.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct PeerFile {
  Descriptor descriptor;  // to read
  uint64_t bytes = 0;
};
// What process `pid` says that it has open as `number`. None of it is believed: there is none unless it is
// that file, a regular one, and of this user.
std::optional<PeerFile> OpenPeerFile(pid_t pid, int32_t number, uint64_t device, uint64_t inode);

}  // namespace leat::net
