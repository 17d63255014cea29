// Memory that will soon be looked at, brought to the cache: worth its while where thousands of things take
// turns, and what each of them needs has long left the cache when it is its turn.
#pragma once

#include <cstddef>
#include <cstdint>

namespace leat {

// Whatever the address: nothing is read.
inline void Prefetch(const void* begin, size_t bytes) {
  constexpr uintptr_t kLine = 64;
  const auto first = reinterpret_cast<uintptr_t>(begin);
  for (uintptr_t line = first & ~(kLine - 1); line < first + bytes; line += kLine) {
    __builtin_prefetch(reinterpret_cast<const void*>(line));
  }
}

}  // namespace leat
