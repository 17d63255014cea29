// Identities of files: copies of a file on several hosts have the same one.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace leat::stream {

struct FileIdentity {
  uint64_t bytes = 0;
  uint64_t hash = 0;  // detects another file, not an attack
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Files above this size are hashed in part: the first and the last MiB, and 16 more at pseudo-random offsets.
inline constexpr uint64_t kMaxHashedWhole = uint64_t{1} << 30;

// kNotFound if there is no such file, kPermissionDenied if it cannot be read.
Result<FileIdentity> IdentifyFile(const std::string& path, uint64_t max_hashed_whole = kMaxHashedWhole);

}  // namespace leat::stream
