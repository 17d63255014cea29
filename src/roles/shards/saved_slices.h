// The memory of a checkpoint that is written while training goes on.
//
// A slice that is updated before it is written exists twice: as it is to be saved, and as it is. These copies
// are limited. The slices that have copies are written first, and if the memory of all copies reaches the
// limit, updates wait for the disk. Training is then as slow as the disk, for the time that the slices take
// to be written. A copy counts until it is freed, because a reply that is being sent may refer to it, too.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "tensor/buffer.h"

namespace leat::roles {

// Thread-safe. One save at a time.
class SavedSlices {
 public:
  static constexpr uint64_t kMaxBytes = 32 << 20;
  // Of an update. After that it makes a copy beyond the limit, and so do all others until the save ends: a
  // disk that hangs must not stop training.
  static constexpr Duration kLongestWait = std::chrono::seconds(2);

  explicit SavedSlices(uint64_t max_bytes = kMaxBytes, Duration longest_wait = kLongestWait)
      : max_bytes_(max_bytes), longest_wait_(longest_wait) {}

  // ---- the thread that updates
  // A save begins; none of its slices is written.
  void Begin();
  // Before the first update of a slice that is being saved. True: it is written, and `memory` may be
  // overwritten. False: `memory` is needed until it is. May wait.
  bool BeforeUpdate(SliceId slice, const Buffer& memory);

  // ---- the thread that writes
  // The slice that an update waits for, or else one with a copy.
  std::optional<SliceId> Urgent() const;
  // The slice is written, and the save has released it.
  void Written(SliceId slice);
  // The save has released all slices, whether they were written or not.
  void End();

 private:
  bool HasRoom(uint64_t bytes);

  const uint64_t max_bytes_;
  const Duration longest_wait_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  bool saving_ = false;
  bool late_ = false;  // an update has waited for too long
  std::set<SliceId> written_;
  std::map<SliceId, Buffer> copied_;  // not written: the old memory
  std::vector<Buffer> used_;          // written, but perhaps still referred to
  std::optional<SliceId> waited_for_;
};

}  // namespace leat::roles
