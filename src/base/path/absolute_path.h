// Absolute paths of processes whose working directory may have been deleted.
#pragma once

#include <string>

#include "base/status.h"

namespace leat {

// The path that std::filesystem::absolute returns. kNotFound, with the former name of the working directory,
// if a relative path has none because that directory has been deleted. Thread-safe.
Result<std::string> AbsolutePath(const std::string& path);

// Throws as Throw(Status).
std::string AbsolutePathOrThrow(const std::string& path);

}  // namespace leat
