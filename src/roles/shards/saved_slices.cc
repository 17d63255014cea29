#include "roles/shards/saved_slices.h"

#include <spdlog/spdlog.h>

namespace leat::roles {

void SavedSlices::Begin() {
  std::lock_guard lock(mutex_);
  saving_ = true;
  late_ = false;
  written_.clear();
}

bool SavedSlices::BeforeUpdate(SliceId slice, const Buffer& memory) {
  std::unique_lock lock(mutex_);
  const auto is_written = [&] { return !saving_ || written_.contains(slice); };
  waited_for_ = slice;
  if (!changed_.wait_for(lock, longest_wait_,
                         [&] { return is_written() || late_ || HasRoom(memory.size()); })) {
    spdlog::warn("a checkpoint needs more memory: slice {} has not been written in time", slice.value);
    late_ = true;
  }
  waited_for_.reset();
  if (is_written()) return true;
  copied_[slice] = memory;
  return false;
}

bool SavedSlices::HasRoom(uint64_t bytes) {
  std::erase_if(used_, [](const Buffer& memory) { return !memory.shared(); });
  for (const auto& [slice, memory] : copied_) bytes += memory.size();
  for (const Buffer& memory : used_) bytes += memory.size();
  return bytes <= max_bytes_;
}

std::optional<SliceId> SavedSlices::Urgent() const {
  std::lock_guard lock(mutex_);
  if (waited_for_ && !written_.contains(*waited_for_)) return waited_for_;
  if (!copied_.empty()) return copied_.begin()->first;
  return std::nullopt;
}

void SavedSlices::Written(SliceId slice) {
  std::lock_guard lock(mutex_);
  written_.insert(slice);
  if (auto copy = copied_.extract(slice)) used_.push_back(std::move(copy.mapped()));
  changed_.notify_all();
}

void SavedSlices::End() {
  std::lock_guard lock(mutex_);
  saving_ = false;
  copied_.clear();
  used_.clear();
  changed_.notify_all();
}

}  // namespace leat::roles
