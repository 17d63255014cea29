#include "storage/checkpoint/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/exit_status.h"
#include "storage/checkpoint/sync.h"

namespace leat::checkpoint {

Status SystemError(const std::string& path, const char* what, int error) {
  return Status(CodeOfErrno(error), path + ": " + what + ": " + std::strerror(error));
}

Result<File> File::Open(const std::string& path, int flags) {
  Descriptor fd;
  do {
    fd = Descriptor(open(path.c_str(), flags | O_CLOEXEC, 0600));
  } while (!fd.ok() && errno == EINTR);
  if (!fd.ok()) return SystemError(path, "open", errno);
  return File(path, std::move(fd));
}

Result<uint64_t> File::Size() const {
  struct stat info;
  if (fstat(fd(), &info) != 0) return SystemError(path_, "stat", errno);
  return static_cast<uint64_t>(info.st_size);
}

Status File::Write(ByteView bytes) {
  return WriteAll(fd(), bytes) ? Status() : SystemError(path_, "write", errno);
}

Status File::WriteAt(uint64_t offset, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path_, "write", errno);
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Status File::ReadAt(uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = pread(fd(), out.data(), out.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path_, "read", errno);
    if (n == 0) {
      return Status(Code::kDataLoss, path_ + ": ends at byte " + std::to_string(offset) + ", " +
                                         std::to_string(out.size()) + " bytes too early");
    }
    out = out.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

Result<uint64_t> File::ReadChecksum() const {
  constexpr uint64_t kPiece = 1 << 20;
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, Size());
  Bytes buffer(std::min(kPiece, size));
  return checkpoint::ReadChecksum(
      0, size, buffer, [this](uint64_t at, std::span<std::byte> piece) { return ReadAt(at, piece); });
}

Status File::Truncate(uint64_t size) {
  if (ftruncate(fd(), static_cast<off_t>(size)) != 0) return SystemError(path_, "truncate", errno);
  return {};
}

Status File::Sync() {
  if (SyncData(fd()) != 0) return SystemError(path_, "sync", errno);
  return {};
}

Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) {
    const Status synced = SyncDirectory(std::filesystem::path(path).parent_path());
    return synced.code() == Code::kPermissionDenied ? Status() : synced;
  }
  if (errno == EEXIST) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) return {};
    errno = ENOTDIR;
  }
  if (errno != ENOENT) return SystemError(path, "make directory", errno);
  LEAT_RETURN_IF_ERROR(MakeDirectory(std::filesystem::path(path).parent_path()));
  return MakeDirectory(path);
}

Status SyncDirectory(const std::string& directory) {
  LEAT_ASSIGN_OR_RETURN(const File file, File::Open(directory, O_RDONLY | O_DIRECTORY));
  if (SyncEntries(file.fd()) != 0) return SystemError(directory, "sync", errno);
  return {};
}

Status Rename(const std::string& directory, const std::string& from, const std::string& to) {
  const std::string path = directory + "/" + to;
  if (std::rename((directory + "/" + from).c_str(), path.c_str()) != 0) {
    return SystemError(path, "rename", errno);
  }
  return {};
}

Status RenameSynced(const std::string& directory, const std::string& from, const std::string& to) {
  LEAT_RETURN_IF_ERROR(Rename(directory, from, to));
  return SyncDirectory(directory);
}

Status ReplaceFile(const std::string& directory, const std::string& name, ByteView bytes) {
  const std::string temporary = name + ".tmp";
  const std::string path = directory + "/" + temporary;
  const Status status = [&]() -> Status {
    LEAT_ASSIGN_OR_RETURN(File file, File::Open(path, O_WRONLY | O_CREAT | O_TRUNC));
    LEAT_RETURN_IF_ERROR(file.Write(bytes));
    LEAT_RETURN_IF_ERROR(file.Sync());
    return RenameSynced(directory, temporary, name);
  }();
  if (!status.ok()) unlink(path.c_str());
  return status;
}

namespace {

// Names in the folders of checkpoints and terms.
bool IsOfFolder(std::string_view name) {
  constexpr std::string_view kTemporary = ".tmp";
  if (name.ends_with(kTemporary)) name.remove_suffix(kTemporary.size());
  return name == "journal" || name == "manifest.json" || name == "removed.json" ||
         (name.starts_with("shard-") && name.ends_with(".safetensors"));
}

}  // namespace

Status RemoveFolder(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() != fs::file_type::directory) return {};
  std::vector<std::string> files;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (IsOfFolder(at->path().filename().string())) files.push_back(at->path().string());
  }
  if (error == std::errc::no_such_file_or_directory) return {};  // another thread was faster
  if (error) return SystemError(path, "read", error.value());
  for (const std::string& file : files)
    if (unlink(file.c_str()) != 0 && errno != ENOENT) return SystemError(file, "remove", errno);
  if (rmdir(path.c_str()) == 0 || errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST) return {};
  return SystemError(path, "remove", errno);
}

Result<Bytes> ReadFile(const std::string& path, uint64_t limit) {
  LEAT_ASSIGN_OR_RETURN(const File file, File::Open(path, O_RDONLY));
  LEAT_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  if (size > limit) {
    return Status(Code::kResourceExhausted, path + ": has " + std::to_string(size) + " bytes, at most " +
                                                std::to_string(limit) + " are read");
  }
  Bytes bytes(size);
  LEAT_RETURN_IF_ERROR(file.ReadAt(0, bytes));
  return bytes;
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

}  // namespace leat::checkpoint
