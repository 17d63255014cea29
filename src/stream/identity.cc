#include "stream/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"
#include "base/rng.h"

namespace leat::stream {
namespace {

constexpr uint64_t kBlock = 1 << 20;
constexpr uint64_t kSamples = 16;

class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

  // Adds [begin, begin + size) to the hash.
  Status Hash(uint64_t begin, uint64_t size, uint64_t* hash) {
    buffer_.resize(kBlock);
    while (size > 0) {
      const ssize_t got = ::pread(fd_, buffer_.data(), std::min(size, kBlock), static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return {Code::kPermissionDenied, std::string("cannot be read: ") + std::strerror(errno)};
      if (got == 0) return {Code::kDataLoss, "has become shorter"};
      *hash = Checksum(ByteView(buffer_).first(static_cast<size_t>(got)), *hash);
      begin += static_cast<uint64_t>(got);
      size -= static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  const int fd_;
  Bytes buffer_;
};

Status HashSamples(File& file, FileIdentity* identity) {
  const uint64_t last = identity->bytes - kBlock;
  LEAT_RETURN_IF_ERROR(file.Hash(0, kBlock, &identity->hash));
  for (uint64_t i = 0; i < kSamples; ++i)
    LEAT_RETURN_IF_ERROR(file.Hash(Mix(identity->bytes, i) % (last + 1), kBlock, &identity->hash));
  return file.Hash(last, kBlock, &identity->hash);
}

}  // namespace

Result<FileIdentity> IdentifyFile(const std::string& path, uint64_t max_hashed_whole) {
  File file(path);
  const int why = errno;
  if (file.fd() < 0) {
    return Status(why == ENOENT || why == ENOTDIR ? Code::kNotFound : Code::kPermissionDenied,
                  path + ": " + std::strerror(why));
  }
  struct stat info;
  if (::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode))
    return Status(Code::kNotFound, path + ": is not a file");
  FileIdentity identity{.bytes = static_cast<uint64_t>(info.st_size)};
  const bool whole = identity.bytes <= std::max(max_hashed_whole, kBlock);
  const Status hashed = whole ? file.Hash(0, identity.bytes, &identity.hash) : HashSamples(file, &identity);
  if (!hashed.ok()) return hashed.With(path);
  return identity;
}

}  // namespace leat::stream
