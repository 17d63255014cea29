#include "run/launcher/output/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <utility>

#include "base/exit_status.h"
#include "base/files/descriptor.h"
#include "base/text.h"

namespace leat::launcher {
namespace {

constexpr int kMostLinks = 40;

// The number in "/dev/fd/3"; none: the path is no descriptor of this process.
std::optional<int> DescriptorIn(std::string_view path) {
  const std::string own = "/proc/" + std::to_string(getpid()) + "/fd/";
  for (const std::string_view folder : {std::string_view("/dev/fd/"), std::string_view("/proc/self/fd/"),
                                        std::string_view("/proc/thread-self/fd/"), std::string_view(own)}) {
    if (!path.starts_with(folder)) continue;
    if (const auto number = ToNumber<int>(path.substr(folder.size())); number.value_or(-1) >= 0)
      return number;
  }
  return std::nullopt;
}

// The target of the link `path`, followed once; none: it is no link.
std::optional<std::string> LinkOf(const std::string& path) {
  std::error_code error;
  const std::filesystem::path to = std::filesystem::read_symlink(path, error);
  if (error) return std::nullopt;
  return (std::filesystem::path(path).parent_path() / to).string();
}

}  // namespace

Status OutputFile::Failed(int error) const {
  // A pipe that nobody reads.
  const Code code = error == ENXIO ? Code::kInvalidArgument : CodeOfErrno(error);
  return {code, path_ + ": cannot be written: " + std::strerror(error)};
}

Status OutputFile::OpenDirectly(int flags) {
  do {
    fd_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC | flags);
  } while (fd_ < 0 && errno == EINTR);
  return fd_ < 0 ? Failed(errno) : Status();
}

// A new file in the target's directory.
Status OutputFile::OpenBeside(unsigned mode, unsigned owner, unsigned group, bool there) {
  const size_t slash = target_.rfind('/') + 1;  // 0: there is none
  std::random_device random;
  for (int attempt = 0;; ++attempt) {
    temporary_ = target_.substr(0, slash) + "." + target_.substr(slash, 200) + "." + std::to_string(random());
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ >= 0) break;
    if (errno != EEXIST || attempt == 10) {
      const Status failed = Failed(errno);
      temporary_.clear();
      return failed;
    }
  }
  if (!there) return {};
  struct stat made {};
  const bool same = fstat(fd_, &made) == 0 &&
                    ((made.st_uid == owner && made.st_gid == group) || fchown(fd_, owner, group) == 0) &&
                    fchmod(fd_, mode & 07777) == 0;
  if (same) return {};
  const Status failed = Failed(errno);
  close(std::exchange(fd_, -1));
  unlink(std::exchange(temporary_, "").c_str());
  return failed;
}

Result<OutputFile> OutputFile::Open(const std::string& path) {
  OutputFile file(path);
  file.target_ = path;
  std::optional<int> descriptor = DescriptorIn(path);
  for (int links = 0; !descriptor; ++links) {
    auto next = LinkOf(file.target_);
    if (!next) break;
    if (links == kMostLinks) return file.Failed(ELOOP);
    file.target_ = std::move(*next);
    descriptor = DescriptorIn(file.target_);
  }
  if (descriptor) {
    file.fd_ = fcntl(*descriptor, F_DUPFD_CLOEXEC, 0);
    if (file.fd_ < 0) return file.Failed(errno);
    file.standard_output_ = *descriptor == STDOUT_FILENO;
    return file;
  }
  struct stat info {};
  const bool there = stat(file.target_.c_str(), &info) == 0;
  if (!there && errno != ENOENT) return file.Failed(errno);
  if (there && S_ISDIR(info.st_mode)) return file.Failed(EISDIR);
  if (there && !S_ISREG(info.st_mode)) {
    LEAT_RETURN_IF_ERROR(file.OpenDirectly(0));
    struct stat out {};
    file.standard_output_ =
        fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == info.st_dev && out.st_ino == info.st_ino;
    return file;
  }
  // The new file would not have the name of its other links.
  const bool alone = !there || info.st_nlink == 1;
  const bool allowed = !there || faccessat(AT_FDCWD, file.target_.c_str(), W_OK, AT_EACCESS) == 0;
  if (!allowed) return file.Failed(errno);
  const Status beside = alone ? file.OpenBeside(info.st_mode, info.st_uid, info.st_gid, there)
                              : Status(Code::kInvalidArgument, "it has other links");
  if (beside.ok()) return file;
  if (!there) return beside;
  // A directory in which nothing can be made, or another owner: its content is replaced at the end.
  LEAT_RETURN_IF_ERROR(file.OpenDirectly(0));
  file.holds_ = true;
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, "")),
      held_(std::move(other.held_)),
      holds_(other.holds_),
      standard_output_(other.standard_output_),
      fd_(std::exchange(other.fd_, -1)) {}

Status OutputFile::Write(std::string_view text) {
  if (holds_) {
    held_ += text;
    return {};
  }
  return WriteAll(fd_, AsBytes(text)) ? Status() : Failed(errno);
}

Status OutputFile::Close() {
  if (holds_) {
    if (ftruncate(fd_, 0) != 0) return Failed(errno);
    if (!WriteAll(fd_, AsBytes(held_))) return Failed(errno);
  }
  if (!temporary_.empty() && fsync(fd_) != 0) return Failed(errno);
  // Some file systems tell only now that there is no space.
  if (close(std::exchange(fd_, -1)) != 0) return Failed(errno);
  if (temporary_.empty()) return {};
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) return Failed(errno);
  temporary_.clear();
  return {};
}

Status WriteOutput(const std::string& path, std::string_view text) {
  LEAT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path));
  LEAT_RETURN_IF_ERROR(file.Write(text));
  return file.Close();
}

}  // namespace leat::launcher
