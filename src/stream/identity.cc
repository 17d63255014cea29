#include "stream/identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/encoding/printable.h"
#include "base/exit_status.h"
#include "base/files/descriptor.h"
#include "base/rng.h"

namespace leat::stream {
namespace {

constexpr uint64_t kHashedBlock = 1 << 20;
constexpr uint64_t kSamples = 16;

class File {
 public:
  explicit File(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  int fd() const { return fd_.get(); }

  // Adds [begin, begin + size) to the hash.
  Status Hash(uint64_t begin, uint64_t size, uint64_t* hash) {
    buffer_.resize(kHashedBlock);
    while (size > 0) {
      const ssize_t got =
          ::pread(fd(), buffer_.data(), std::min(size, kHashedBlock), static_cast<off_t>(begin));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return {CodeOfErrno(errno), std::string("cannot be read: ") + std::strerror(errno)};
      if (got == 0) return {Code::kDataLoss, "has become shorter"};
      *hash = Checksum(ByteView(buffer_).first(static_cast<size_t>(got)), *hash);
      begin += static_cast<uint64_t>(got);
      size -= static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  const Descriptor fd_;
  Bytes buffer_;
};

// `hash(begin, size)` adds a range of the content to the hash.
template <class Hash>
Status HashContent(uint64_t bytes, uint64_t max_hashed_whole, const Hash& hash) {
  if (bytes <= std::max(max_hashed_whole, kHashedBlock)) return hash(0, bytes);
  const uint64_t last = bytes - kHashedBlock;
  LEAT_RETURN_IF_ERROR(hash(0, kHashedBlock));
  for (uint64_t i = 0; i < kSamples; ++i)
    LEAT_RETURN_IF_ERROR(hash(Mix(bytes, i) % (last + 1), kHashedBlock));
  return hash(last, kHashedBlock);
}

}  // namespace

std::string ToString(const FileIdentity& identity) {
  return std::to_string(identity.bytes) + ":" + ToHex(identity.hash);
}

Result<FileIdentity> ParseIdentity(std::string_view text) {
  FileIdentity identity;
  const size_t colon = std::min(text.find(':'), text.size());
  const char* const end = text.data() + text.size();
  (void)std::from_chars(text.data(), text.data() + colon, identity.bytes);
  if (colon < text.size()) (void)std::from_chars(text.data() + colon + 1, end, identity.hash, 16);
  if (ToString(identity) == text) return identity;
  return Status(Code::kInvalidArgument, "'" + std::string(text) + "' is not the identity of a file");
}

FileIdentity IdentityOf(ByteView content, uint64_t max_hashed_whole) {
  FileIdentity identity{.bytes = content.size()};
  (void)HashContent(content.size(), max_hashed_whole, [&](uint64_t begin, uint64_t size) {
    for (const uint64_t end = begin + size; begin < end; begin += kHashedBlock)
      identity.hash = Checksum(content.subspan(begin, std::min(kHashedBlock, end - begin)), identity.hash);
    return Status();
  });
  return identity;
}

namespace {

Result<FileIdentity> Identify(const std::string& path, std::optional<uint64_t> bytes,
                              uint64_t max_hashed_whole) {
  File file(path);
  const int why = errno;
  if (file.fd() < 0) {
    return Status(why == ENOTDIR ? Code::kNotFound : CodeOfErrno(why), path + ": " + std::strerror(why));
  }
  struct stat info;
  if (::fstat(file.fd(), &info) != 0 || !S_ISREG(info.st_mode))
    return Status(Code::kNotFound, path + ": is not a file");
  FileIdentity identity{.bytes = bytes.value_or(static_cast<uint64_t>(info.st_size))};
  const auto hash = [&](uint64_t begin, uint64_t size) { return file.Hash(begin, size, &identity.hash); };
  const Status hashed = HashContent(identity.bytes, max_hashed_whole, hash);
  if (!hashed.ok()) return hashed.With(path);
  return identity;
}

}  // namespace

Result<FileIdentity> IdentifyFile(const std::string& path, uint64_t max_hashed_whole) {
  return Identify(path, std::nullopt, max_hashed_whole);
}

Result<FileIdentity> IdentifyStart(const std::string& path, uint64_t bytes, uint64_t max_hashed_whole) {
  return Identify(path, bytes, max_hashed_whole);
}

}  // namespace leat::stream
