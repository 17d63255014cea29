// File descriptors of this process.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/bytes.h"

namespace leat {

// Owns a descriptor and closes it.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor other) noexcept {
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

// Writes all bytes at the current position. False with errno if that fails.
inline bool WriteAll(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace leat
