// Paths and names of files.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

// Absolute paths of processes whose working directory may have been deleted.

// The path that std::filesystem::absolute returns. kNotFound, with the former name of the working directory,
// if a relative path has none because that directory has been deleted. Thread-safe.
Result<std::string> AbsolutePath(const std::string& path);

// Throws as Throw(Status).
std::string AbsolutePathOrThrow(const std::string& path);

// True for letters, digits, '-', '_' and '.', not beginning with '.'. Check names from peers and files before
// joining them with a directory.
bool IsPlainName(std::string_view name);

}  // namespace leat
