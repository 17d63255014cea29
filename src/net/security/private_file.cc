#include "net/security/private_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/check.h"
#include "base/encoding/printable.h"
#include "base/text.h"
#include "net/same_host/same_host_peer.h"

namespace leat::net {

namespace {

Code CodeOf(int error) {
  if (error == ENOENT || error == ENOTDIR) return Code::kNotFound;
  return error == ENOSPC || error == EDQUOT ? Code::kResourceExhausted : Code::kPermissionDenied;
}

Result<std::string> Read(const std::filesystem::path& path, bool is_private) {
  const auto fail = [&path](Code code, const std::string& why) {
    return Status(code, path.string() + ": " + why);
  };
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  if (file.get() < 0 || fstat(file.get(), &about) != 0) return fail(CodeOf(errno), std::strerror(errno));
  if (!S_ISREG(about.st_mode)) return fail(Code::kInvalidArgument, "not a regular file");
  if (is_private && !IsPrivate(about.st_mode, about.st_uid == 0)) {
    return fail(Code::kPermissionDenied,
                Formatted("other users have access to this secret (mode %03o); run chmod 600 on it",
                          about.st_mode & 0777));
  }
  std::string content(kMaxPrivateFileBytes + 1, '\0');
  size_t have = 0;
  while (have < content.size()) {
    const ssize_t got = read(file.get(), content.data() + have, content.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(CodeOf(errno), std::strerror(errno));
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  if (have > kMaxPrivateFileBytes)
    return fail(Code::kInvalidArgument, "more than " + std::to_string(kMaxPrivateFileBytes) + " bytes");
  content.resize(have);
  return content;
}

}  // namespace

bool IsPrivate(unsigned mode, bool owned_by_root) {
  const unsigned others = mode & 0077;
  return others == 0 || (owned_by_root && others == S_IRGRP);
}

Result<std::string> ReadPrivateFile(const std::filesystem::path& path) {
  return Read(path, true);
}

Result<std::string> ReadPublicFile(const std::filesystem::path& path) {
  return Read(path, false);
}

Status CreatePrivateFile(const std::filesystem::path& path, std::string_view content) {
  const auto fail = [&path](int error) {
    return Status(CodeOf(error), "cannot create " + path.string() + ": " + std::strerror(error));
  };
  std::error_code error;
  if (const auto folder = path.parent_path(); !folder.empty() && !std::filesystem::exists(folder, error)) {
    std::filesystem::create_directories(folder.parent_path(), error);
    if (!error && mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return fail(errno);
    if (error) return fail(error.value());
  }
  const std::string temporary = path.string() + "." + RandomHex(8) + ".tmp";
  const Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return fail(errno);
  // A link, unlike a rename, does not replace the file of another process.
  int failure = 0;
  if (!WriteAll(file.get(), AsBytes(content)) || fsync(file.get()) != 0 ||
      (link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST))
    failure = errno;
  unlink(temporary.c_str());
  return failure == 0 ? Status() : fail(failure);
}

std::string FileStamp(const std::filesystem::path& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) != 0) return "none";
  return std::to_string(found.st_dev) + "." + std::to_string(found.st_ino) + "." +
         std::to_string(found.st_size) + "." + std::to_string(found.st_mtim.tv_sec) + "." +
         std::to_string(found.st_mtim.tv_nsec);
}

std::string RandomHex(size_t bytes) {
  std::string random(bytes, '\0');
  LEAT_CHECK(bytes <= 256 && getrandom(random.data(), bytes, 0) == static_cast<ssize_t>(bytes));
  return ToHex(random);
}

namespace fs = std::filesystem;

Descriptor LockFolder(const std::string& path) {
  Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat at {};
  // Without links, the path already belongs to another folder.
  const bool mine = folder.ok() && flock(folder.get(), LOCK_EX | LOCK_NB) == 0 &&
                    fstat(folder.get(), &at) == 0 && at.st_uid == geteuid() && at.st_nlink > 0;
  return mine ? std::move(folder) : Descriptor();
}

void RemoveLeftFolders(const std::string& parent, std::string_view prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator it(parent, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with(prefix)) found.push_back(it->path().string());
  }
  for (const std::string& path : found) {
    if (const Descriptor lock = LockFolder(path); lock.ok()) fs::remove_all(path, error);
  }
}

}  // namespace leat::net
