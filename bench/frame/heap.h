// Counts what a program that links this takes from the heap, told apart by who asked.
#pragma once

#include <cstdint>

namespace leat::bench {

struct HeapCounts {
  uint64_t own = 0;   // allocations with no frame of libdnnl above them
  uint64_t dnnl = 0;  // those that libdnnl made, or had made
};

// Allocations of the calling thread while it lives. Each is looked at frame by frame, which is slow.
class HeapWatch {
 public:
  HeapWatch();
  ~HeapWatch();
  HeapWatch(const HeapWatch&) = delete;
  HeapWatch& operator=(const HeapWatch&) = delete;
  HeapCounts counts() const;
};

}  // namespace leat::bench
