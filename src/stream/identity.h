// Identities of files: copies of a file on several hosts have the same one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/status.h"

namespace leat::stream {

struct FileIdentity {
  uint64_t bytes = 0;
  uint64_t hash = 0;  // detects another file, not an attack
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Files above this size are hashed in part: the first and the last MiB, and 16 more at pseudo-random offsets.
inline constexpr uint64_t kMaxHashedWhole = uint64_t{1} << 30;

// "BYTES:HASH", the hash as 16 hexadecimal digits.
std::string ToString(const FileIdentity& identity);
// kInvalidArgument if the text is not one of ToString's.
Result<FileIdentity> ParseIdentity(std::string_view text);

// The identity of a file with this content.
FileIdentity IdentityOf(ByteView content, uint64_t max_hashed_whole = kMaxHashedWhole);
// kNotFound if there is no such file, else CodeOfErrno if it cannot be read.
Result<FileIdentity> IdentifyFile(const std::string& path, uint64_t max_hashed_whole = kMaxHashedWhole);

// The identity of a file with the first `bytes` of this one, which it must have: kDataLoss if it is shorter.
Result<FileIdentity> IdentifyStart(const std::string& path, uint64_t bytes,
                                   uint64_t max_hashed_whole = kMaxHashedWhole);

}  // namespace leat::stream
