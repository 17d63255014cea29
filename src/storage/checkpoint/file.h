// Files with synchronous writes. Every failure is a Status with the path and the system's message.
#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/files/descriptor.h"
#include "base/status.h"

namespace leat::checkpoint {

// "path: what: No such file or directory", with CodeOfErrno.
Status SystemError(const std::string& path, const char* what, int error);

// Owns a file descriptor that child processes do not inherit. Thread-compatible.
class File {
 public:
  // A new file is private to its owner (0600).
  static Result<File> Open(const std::string& path, int flags);
  const std::string& path() const { return path_; }
  // After a rename.
  void set_path(std::string path) { path_ = std::move(path); }
  int fd() const { return fd_.get(); }
  Result<uint64_t> Size() const;
  // Writes all bytes at the current position.
  Status Write(ByteView bytes);
  Status WriteAt(uint64_t offset, ByteView bytes);
  // Fills all of `out`; kDataLoss if the file ends before.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const;
  // Checksum of the whole file.
  Result<uint64_t> ReadChecksum() const;
  Status Truncate(uint64_t size);
  // Content and size are on disk when it returns.
  Status Sync();

 private:
  File(std::string path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  Descriptor fd_;
};

// Creates a directory and missing parents, all private to their owner (0700). Each new entry is synced,
// unless its parent is not readable.
Status MakeDirectory(const std::string& path);
// Directory entries (created, renamed, removed names) are on disk when it returns.
Status SyncDirectory(const std::string& directory);
// Renames a file within `directory`; SyncDirectory makes it durable.
Status Rename(const std::string& directory, const std::string& from, const std::string& to);
// Renames a file within `directory`, durably. The file appears under its new name complete or not at all.
Status RenameSynced(const std::string& directory, const std::string& from, const std::string& to);
// Writes a temporary file, syncs, renames, and syncs the directory: after a crash either the old or the new
// file exists.
Status ReplaceFile(const std::string& directory, const std::string& name, ByteView bytes);
// Removes the folder of a checkpoint or a term: the files with names that are given to files there, then the
// folder. Others may have a folder of such a name, too: its other contents stay, and so does the folder. Ok
// if there is none.
Status RemoveFolder(const std::string& path);
// kResourceExhausted if it is larger than `limit`.
Result<Bytes> ReadFile(const std::string& path, uint64_t limit);

bool Exists(const std::string& path);

// Checksum (base/bytes.h) of bytes that arrive in pieces. Thread-compatible.
class RunningChecksum {
 public:
  RunningChecksum() : state_(XXH3_createState(), XXH3_freeState) { XXH3_64bits_reset(state_.get()); }
  void Add(ByteView bytes) { XXH3_64bits_update(state_.get(), bytes.data(), bytes.size()); }
  uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

// The checksum of the bytes from offset `begin` to `end`. `read(offset, piece)` fills pieces of `buffer`,
// which must not be empty, and returns a Status.
template <class Read>
Result<uint64_t> ReadChecksum(uint64_t begin, uint64_t end, std::span<std::byte> buffer, const Read& read) {
  RunningChecksum checksum;
  for (uint64_t at = begin; at < end;) {
    const auto piece = buffer.first(std::min<uint64_t>(buffer.size(), end - at));
    LEAT_RETURN_IF_ERROR(read(at, piece));
    checksum.Add(piece);
    at += piece.size();
  }
  return checksum.value();
}

}  // namespace leat::checkpoint
