// Paths and names of files, and small files that a user names.
#pragma once

#include <cstdint>
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

// The first `most` bytes of a file, or all if it has fewer. Errors name the path, and have the code of errno:
// descriptors that have run out are no mistake of the user. Blocks on a pipe. Thread-safe.
Result<std::string> ReadFirstBytes(const std::string& path, uint64_t most);

}  // namespace leat
