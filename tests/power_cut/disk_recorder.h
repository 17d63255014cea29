// Records the file operations of this program below one directory, and builds the disk that a power failure
// leaves after any of them. Also makes chosen operations fail.
//
// disk_recorder.cc defines the C library's functions for files, so SQLite and the standard library are
// covered too. Recorded files are never really synced. Not thread-safe: use it in programs with one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace leat::power_cut {

struct Operation {
  enum class Kind : uint8_t { kCreate, kWrite, kTruncate, kSync, kRename, kRemove };
  Kind kind = Kind::kWrite;
  uint64_t node = 0;       // the file or directory; kSync of a directory makes its entries durable
  uint64_t directory = 0;  // kCreate, kRename, kRemove: where the entry is
  bool is_directory = false;
  std::string name, to;
  uint64_t offset = 0;  // kWrite; kTruncate: the size
  Bytes data;
};

// From its construction to its destruction, operations below `root` are recorded. `root` is node 0.
class Recorder {
 public:
  explicit Recorder(const std::string& root);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  const std::vector<Operation>& operations() const;
};

// Builds in the empty directory `root` what is on the disk if the power fails after the first `count`
// operations. Synced operations are kept. `seed` chooses which others are: none, all, a random choice, or
// those up to some moment, the last of them torn at a sector.
void BuildDisk(const std::vector<Operation>& operations, size_t count, uint64_t seed,
               const std::string& root);

// While it exists, operations on files whose path contains `part` fail with `error`: syncs, or else writes
// and truncations. A `part` with '$' at its end is the end of the path.
class FailingFiles {
 public:
  enum class What : uint8_t { kSync, kWrite };
  FailingFiles(What what, std::string part, int error);
  ~FailingFiles();
  FailingFiles(const FailingFiles&) = delete;
  FailingFiles& operator=(const FailingFiles&) = delete;
};

}  // namespace leat::power_cut
