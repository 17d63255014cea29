// Backs the heap with huge pages, for programs that access far more pages at random than the TLB covers. Like
// GLIBC_TUNABLES=glibc.malloc.hugetlb=1, but set by the program itself.
#pragma once

#include <cstddef>

namespace leat::sim {

// Lets the next `bytes` of the heap use huge pages if the system provides them, and keeps them until the
// process ends. Memory is still allocated page by page on demand. Call once at start, before there are
// threads.
void HeapOfHugePages(size_t bytes);

}  // namespace leat::sim
