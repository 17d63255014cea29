#include "base/path/paths.h"

#include <filesystem>
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

}  // namespace leat
