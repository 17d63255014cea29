// Memory of a simulation: objects in transit, and a heap of huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace leat::sim {

// Memory for many short-lived objects, each identified by an index. The most recently freed object is reused
// first, because it is still in the cache. Not thread-safe.
template <class T>
class Slab {
 public:
  // Returns the index of a free object, which still has the contents of its last use. Other objects do not
  // move.
  uint32_t Allocate() {
    if (free_.empty()) {
      if (size_ == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<T[]>(kBlock));
      return size_++;
    }
    const uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  void Free(uint32_t index) { free_.push_back(index); }
  T& operator[](uint32_t index) { return blocks_[index / kBlock][index % kBlock]; }

 private:
  static constexpr size_t kBlock = 256;
  std::vector<std::unique_ptr<T[]>> blocks_;
  uint32_t size_ = 0;
  std::vector<uint32_t> free_;
};

// Backs the heap with huge pages, for programs that access far more pages at random than the TLB covers. Like
// GLIBC_TUNABLES=glibc.malloc.hugetlb=1, but set by the program itself. Lets the next `bytes` of the heap use
// huge pages if the system provides them, and keeps them until the process ends. Memory is still allocated
// page by page on demand. Call once at start, before there are threads.
void HeapOfHugePages(size_t bytes);

}  // namespace leat::sim
