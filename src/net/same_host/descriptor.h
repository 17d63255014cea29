// File descriptors of this process, and files that other processes have open.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace leat::net {

// Owns a descriptor and closes it.
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
  // Transfers ownership to the caller.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

struct PeerFile {
  Descriptor descriptor;  // read-only
  uint64_t bytes = 0;
};
// Opens the file that process `pid` claims to have open as descriptor `number`. Returns none unless it is a
// regular file of this user with the given device and inode.
std::optional<PeerFile> OpenPeerFile(pid_t pid, int32_t number, uint64_t device, uint64_t inode);

}  // namespace leat::net
