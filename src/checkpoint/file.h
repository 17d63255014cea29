// Files as the system has them: every failure is a Status with the path and the system's words.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::checkpoint {

// "path: what: No such file or directory". Codes: kNotFound, kPermissionDenied (also a read-only file
// system), kResourceExhausted (disk, quota, file size, descriptors), kInvalidArgument (the path is no path),
// kDataLoss (the device fails), else kInternal.
Status SystemError(const std::string& path, const char* what, int error);

// Owns a descriptor that programs started from this one do not inherit. Thread-compatible.
class File {
 public:
  static Result<File> Open(const std::string& path, int flags);
  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  Result<uint64_t> Size() const;
  // All of it, where the last write ended.
  Status Write(ByteView bytes);
  Status WriteAt(uint64_t offset, ByteView bytes);
  // Fills all of `out`; kDataLoss when the file ends before.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const;
  Status Truncate(uint64_t size);
  // Content and size are on disk when it returns.
  Status Sync();

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
};

// Entries of the directory (names made, renamed, removed) are on disk when it returns.
Status SyncDirectory(const std::string& directory);
// Both in `directory`. The file appears under its new name whole or not at all.
Status RenameSynced(const std::string& directory, const std::string& from, const std::string& to);
// Temporary name, sync, rename, sync of the directory: after a crash the old file is there or the new one.
Status ReplaceFile(const std::string& directory, const std::string& name, ByteView bytes);
// kResourceExhausted when it is larger than `limit`.
Result<Bytes> ReadFile(const std::string& path, uint64_t limit);

bool Exists(const std::string& path);
// Letters, digits, '-', '_' and '.', nothing hidden. What is joined with a directory after a peer or file
// named it.
bool IsPlainName(const std::string& name);

}  // namespace leat::checkpoint
