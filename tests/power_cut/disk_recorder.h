// Records the file operations of this program below one directory, for disk_image.h. Also makes chosen
// operations fail.
//
// disk_recorder.cc defines the C library's functions for files, so SQLite is covered too, and of the standard
// library all but streams. Recorded files are never really synced. Operations of several threads are recorded
// in the order in which they happen.
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
  uint64_t target = 0;     // kRename: where it comes to be. A sync of either directory makes it durable
  bool is_directory = false;
  std::string name, to;
  uint64_t offset = 0;  // kWrite; kTruncate: the size
  Bytes data;
};

// Records the operations below `root` from its construction to its destruction. `root` is node 0. There is
// one recorder at a time.
class Recorder {
 public:
  explicit Recorder(const std::string& root);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  // Operations so far. Thread-safe.
  size_t count() const;
  std::vector<Operation> operations() const;
};

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
