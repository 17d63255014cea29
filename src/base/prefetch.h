// Cache prefetch. Useful when a loop visits thousands of objects in turn, whose data has left the cache by
// then.
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat {

// Prefetches every cache line of the range. Any address is safe, since nothing is dereferenced.
inline void Prefetch(const void* begin, size_t bytes) {
  constexpr uintptr_t kLine = 64;
  const auto first = reinterpret_cast<uintptr_t>(begin);
  for (uintptr_t line = first & ~(kLine - 1); line < first + bytes; line += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(line));
  }
  // g++ 12 takes a function that only prefetches for one without effects, and drops calls to it.
  asm volatile("");
}

}  // namespace leat
