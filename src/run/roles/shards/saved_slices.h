// The memory of a checkpoint that is written while training goes on.
//
// A slice that is updated before it is written exists twice: as it is to be saved, and as it is. Updates make
// copies at once until these take Limits::copies. Then it depends on the slices of the save:
//
// - If all of them together take at most Limits::whole, updates wait for the disk for Limits::patience
//   per save, and then make copies again. The pause of training is therefore short, however slow
//   the disk is, and costs at most the memory of the slices once more. Slices are written from the last one
//   on, because pushes update them from the first one on.
// - If not, the copies are limited: slices that have copies are written first, and an update waits until the
//   copies take less, or until its slice is written. Training is then as slow as the disk, for the time that
//   the slices take to be written.
//
// A copy counts until it is freed, because a reply that is being sent may refer to it, too.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "compute/tensor/buffer.h"

namespace leat::roles {

// Thread-safe. One save at a time.
class SavedSlices {
 public:
  struct Limits {
    uint64_t copies = 32 << 20;
    uint64_t whole = 256 << 20;
    Duration patience = std::chrono::milliseconds(10);
    // Limit of an update's wait, if the copies are limited. After that it makes a copy beyond the limit, and
    // so do all others until the save ends: a disk that hangs must not stop training.
    Duration longest_wait = std::chrono::seconds(2);
  };
  explicit SavedSlices(const Limits& limits) : limits_(limits) {}

  // The sizes of the copies that may exist at once, if the save has slices of these sizes.
  std::vector<uint64_t> Copied(std::vector<uint64_t> sizes) const;

  // ---- the thread that updates
  // A save of these slices begins, of `bytes` in all; none is written.
  void Begin(std::set<SliceId> slices, uint64_t bytes);
  // Before the first update of a slice that is being saved. True: it is written, and `memory` may be
  // overwritten. False: `memory` is needed until it is. May wait.
  bool BeforeUpdate(SliceId slice, const Buffer& memory);

  // ---- the thread that writes
  // The slice to write next, if it matters.
  std::optional<SliceId> Urgent() const;
  // The slice is written, and the save has released it.
  void Written(SliceId slice);
  // The save has released all slices, whether they were written or not.
  void End();

 private:
  bool HasRoom(uint64_t bytes);
  // How long the next update may wait.
  Duration Patience() const {
    return whole_ ? std::max(Duration{0}, limits_.patience - waited_) : limits_.longest_wait;
  }

  const Limits limits_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool saving_ = false;
  bool whole_ = false;  // all slices may be copied
  bool late_ = false;   // no update waits any more
  Duration waited_{0};  // by all updates
  std::set<SliceId> written_;
  std::set<SliceId> untouched_;       // neither written nor copied
  std::map<SliceId, Buffer> copied_;  // not written: the old memory
  uint64_t copied_bytes_ = 0;         // size of copied_
  std::vector<Buffer> used_;          // written, but perhaps still referred to
  std::optional<SliceId> waited_for_;
};

// Memory whose pages are there already, for the copies of slices that a save makes: the kernel takes several
// times longer to give fresh pages than a copy into them takes, and training waits for the copies.
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
