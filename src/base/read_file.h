// Reads small files that a user names.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace leat {

// The first `most` bytes of a file, or all if it has fewer. Errors name the path, and have the code of errno:
// descriptors that have run out are no mistake of the user. Blocks on a pipe. Thread-safe.
Result<std::string> ReadFirstBytes(const std::string& path, uint64_t most);

}  // namespace leat
