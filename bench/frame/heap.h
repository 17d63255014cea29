// Counts heap allocations by caller, in programs that link this.
#pragma once

#include <cstdint>

namespace leat::bench {

struct HeapCounts {
  uint64_t own = 0;   // allocations without libdnnl on the call stack
  uint64_t dnnl = 0;  // allocations with libdnnl on the call stack
};

// Counts the allocations of the calling thread during its lifetime. Slow: it walks the stack of each.
class HeapWatch {
 public:
  HeapWatch();
  ~HeapWatch();
  HeapWatch(const HeapWatch&) = delete;
  HeapWatch& operator=(const HeapWatch&) = delete;
  HeapCounts counts() const;
};

}  // namespace leat::bench
