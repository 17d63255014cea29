#include "base/path/paths.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "base/exit_status.h"
#include "base/text.h"

namespace leat {

namespace {

// The name with a blank before it, or an empty string if the system does not tell it.
std::string FormerWorkingDirectory() {
  constexpr std::string_view kMark = " (deleted)";
  std::error_code error;
  std::string name = std::filesystem::read_symlink("/proc/self/cwd", error).string();
  if (error || !name.ends_with(kMark)) return "";
  return " " + name.substr(0, name.size() - kMark.size());
}

}  // namespace

Result<std::string> AbsolutePath(const std::string& path) {
  if (path.empty()) return Status(Code::kInvalidArgument, "a path is empty");
  std::error_code error;
  std::string absolute = std::filesystem::absolute(path, error).string();
  if (!error) return absolute;
  const std::string quoted = "'" + path + "'";
  if (error != std::errc::no_such_file_or_directory)
    return Status(CodeOfErrno(error.value()), quoted + ": " + error.message());
  return Status(Code::kNotFound, "the working directory" + FormerWorkingDirectory() + " has been deleted; " +
                                     quoted + " is relative to it");
}

std::string AbsolutePathOrThrow(const std::string& path) {
  return OrThrow(AbsolutePath(path));
}

bool IsPlainName(std::string_view name) {
  return IsWord(name, 255, "-_.") && name[0] != '.';
}

Result<std::string> ReadFirstBytes(const std::string& path, uint64_t most) {
  const auto failed = [&path] { return Status(CodeOfErrno(errno), path + ": " + std::strerror(errno)); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), std::fclose);
  if (file == nullptr) return failed();
  std::string text;
  uint64_t length = 0;
  while (length < most && std::feof(file.get()) == 0) {
    text.resize(std::min<uint64_t>(most, std::max<uint64_t>(2 * length, 64 << 10)));
    length += std::fread(text.data() + length, 1, text.size() - length, file.get());
    if (std::ferror(file.get()) != 0) return failed();
  }
  text.resize(length);
  return text;
}

}  // namespace leat
