#include "run/roles/shards/saved_slices.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/log.h"

namespace leat::roles {
namespace {

// The memory stays zeroed.
void Touch(const Buffer& memory) {
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < memory.size(); at += page) {
    *reinterpret_cast<volatile char*>(memory.data() + at) = 0;
  }
}

}  // namespace

std::vector<uint64_t> SavedSlices::Copied(std::vector<uint64_t> sizes) const {
  const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
  if (all <= limits_.whole) return sizes;
  uint64_t sum = 0;
  const auto first_beyond =
      std::ranges::find_if(sizes, [&](uint64_t bytes) { return (sum += bytes) > limits_.copies; });
  sizes.erase(first_beyond, sizes.end());
  return sizes;
}

void SavedSlices::Begin(std::set<SliceId> slices, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  saving_ = true;
  whole_ = bytes <= limits_.whole;
  late_ = false;
  waited_ = Duration{0};
  written_.clear();
  untouched_ = std::move(slices);
}

bool SavedSlices::BeforeUpdate(SliceId slice, const Buffer& memory) {
  std::unique_lock lock(mutex_);
  const auto is_written = [&] { return !saving_ || written_.contains(slice); };
  const auto may_go_on = [&] { return is_written() || late_ || HasRoom(memory.size()); };
  if (!may_go_on()) {
    const MonotonicClock clock;
    const Time began = clock.Now();
    waited_for_ = slice;
    late_ = !changed_.wait_for(lock, Patience(), may_go_on) || late_;
    waited_for_.reset();
    waited_ += clock.Now() - began;
    if (late_ && !whole_ && !is_written())
      spdlog::warn("a checkpoint needs more memory: slice {} has not been written in time", slice.value);
  }
  if (is_written()) return true;
  untouched_.erase(slice);
  copied_[slice] = memory;
  copied_bytes_ += memory.size();
  return false;
}

bool SavedSlices::HasRoom(uint64_t bytes) {
  std::erase_if(used_, [](const Buffer& memory) { return !memory.shared(); });
  bytes += copied_bytes_;
  for (const Buffer& memory : used_) bytes += memory.size();
  return bytes <= limits_.copies;
}

std::optional<SliceId> SavedSlices::Urgent() const {
  std::lock_guard lock(mutex_);
  if (waited_for_ && !written_.contains(*waited_for_)) return waited_for_;
  if (whole_ && !untouched_.empty()) return *untouched_.rbegin();
  if (!copied_.empty()) return copied_.begin()->first;
  return std::nullopt;
}

// Freeing memory takes time, in which no update should wait for the mutex.
void SavedSlices::Written(SliceId slice) {
  std::vector<Buffer> free;
  std::lock_guard lock(mutex_);
  written_.insert(slice);
  untouched_.erase(slice);
  if (auto copy = copied_.extract(slice)) {
    copied_bytes_ -= copy.mapped().size();
    used_.push_back(std::move(copy.mapped()));
  }
  const auto unused = std::ranges::partition(used_, &Buffer::shared);
  free.assign(std::move_iterator(unused.begin()), std::move_iterator(unused.end()));
  used_.erase(unused.begin(), unused.end());
  changed_.notify_all();
}

void SavedSlices::End() {
  std::map<SliceId, Buffer> copied;
  std::vector<Buffer> used;
  std::lock_guard lock(mutex_);
  saving_ = false;
  untouched_.clear();
  copied.swap(copied_);
  copied_bytes_ = 0;
  used.swap(used_);
  changed_.notify_all();
}

// ---- prepared memory

void PreparedMemory::Prepare(const std::vector<uint64_t>& sizes) {
  std::unique_lock lock(mutex_);
  const uint64_t drops = drops_;
  for (const uint64_t bytes : sizes) {
    lock.unlock();
    Buffer memory = allocate_(bytes);
    Touch(memory);
    lock.lock();
    if (drops_ != drops) return;
    prepared_[bytes].push_back(std::move(memory));
  }
}

Buffer PreparedMemory::Take(size_t bytes) {
  {
    std::lock_guard lock(mutex_);
    const auto at = prepared_.find(bytes);
    if (at != prepared_.end() && !at->second.empty()) {
      Buffer memory = std::move(at->second.back());
      at->second.pop_back();
      return memory;
    }
  }
  return allocate_(bytes);
}

void PreparedMemory::Drop() {
  std::map<size_t, std::vector<Buffer>> dropped;  // freed without the lock
  std::lock_guard lock(mutex_);
  ++drops_;
  dropped.swap(prepared_);
}

}  // namespace leat::roles
