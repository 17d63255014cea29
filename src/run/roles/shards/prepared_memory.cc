#include "run/roles/shards/prepared_memory.h"

#include <unistd.h>

#include <utility>

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
