#include "lab/sim/events/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

namespace leat::sim {

void HeapOfHugePages(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20;
  constexpr size_t kMax = size_t{1} << 30;         // mallopt's parameters are ints
  constexpr size_t kMaxInHeap = size_t{32} << 20;  // glibc's maximum for one allocation
  // Large allocations also go to the heap, which is extended at once, so that one madvise covers it.
  mallopt(M_MMAP_THRESHOLD, static_cast<int>(kMaxInHeap));
  mallopt(M_TRIM_THRESHOLD, -1);  // never: it would give back what the pieces below have got
  mallopt(M_TOP_PAD, static_cast<int>(std::min(bytes, kMax)));
  const auto end = [] { return reinterpret_cast<uintptr_t>(sbrk(0)); };
  const uintptr_t before = end();
  // It grows by at most kMax at once, and there may be some free space already.
  constexpr size_t kPiece = 8 * kHuge;
  std::vector<std::unique_ptr<char[]>> pieces;
  while (end() - before < bytes && pieces.size() * kPiece < bytes + kMax) {
    pieces.push_back(std::make_unique_for_overwrite<char[]>(kPiece));
  }
  pieces.clear();
  const uintptr_t begin = (before + kHuge - 1) / kHuge * kHuge;
  if (end() > begin) madvise(reinterpret_cast<void*>(begin), end() - begin, MADV_HUGEPAGE);
}

}  // namespace leat::sim
