// A library for LD_PRELOAD: what a program writes to the shards of a checkpoint takes as long as on a disk of
// $LEAT_SLOW_DISK bytes per second that has no cache.
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

namespace {

bool IsShard(int fd) {
  char path[4096];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t n = readlink(link.c_str(), path, sizeof(path) - 1);
  if (n <= 0) return false;
  path[n] = '\0';
  return std::strstr(path, "/shard-") != nullptr;
}

ssize_t Write(int fd, const void* data, size_t size, off_t offset) {
  const ssize_t written = syscall(SYS_pwrite64, fd, data, size, offset);
  static const char* const rate = std::getenv("LEAT_SLOW_DISK");
  if (written <= 0 || rate == nullptr || !IsShard(fd)) return written;
  const double seconds = static_cast<double>(written) / std::atof(rate);
  timespec wait{};
  wait.tv_sec = static_cast<time_t>(seconds);
  wait.tv_nsec = static_cast<long>((seconds - static_cast<double>(wait.tv_sec)) * 1e9);
  nanosleep(&wait, nullptr);
  return written;
}

}  // namespace

// Shared libraries find these, whatever the visibility of this build's own symbols.
#pragma GCC visibility push(default)
extern "C" {

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return Write(fd, data, size, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  return Write(fd, data, size, offset);
}

}  // extern "C"
#pragma GCC visibility pop
