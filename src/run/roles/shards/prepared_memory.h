// Memory whose pages are there already, for the copies of slices that a save makes: the kernel takes several
// times longer to give fresh pages than a copy into them takes, and training waits for the copies.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "compute/tensor/buffer.h"

namespace leat::roles {

// Thread-safe.
class PreparedMemory {
 public:
  explicit PreparedMemory(Allocate allocate) : allocate_(std::move(allocate)) {}

  // Adds buffers of these sizes. Takes as long as the kernel needs for their pages; ends at once if they are
  // dropped meanwhile. Call it on a background thread.
  void Prepare(const std::vector<uint64_t>& sizes);
  // A zeroed buffer of this size: a prepared one if there is one.
  Buffer Take(size_t bytes);
  // Frees the buffers that were not taken.
  void Drop();

 private:
  const Allocate allocate_;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::map<size_t, std::vector<Buffer>> prepared_;  // by size
  uint64_t drops_ = 0;
};

}  // namespace leat::roles
