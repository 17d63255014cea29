// The heap in huge pages: for programs whose data is far more than the pages that a processor knows by heart,
// and looked at here and there. glibc does it where the environment says so
// (GLIBC_TUNABLES=glibc.malloc.hugetlb=1); this is the same for a program that knows it of itself.
#pragma once

#include <cstddef>

namespace leat::sim {

// The heap's next `bytes` come of huge pages where the system has any to give, and are kept until the process
// ends. Nothing else changes: memory is taken page by page, as it is needed. To be called once, at start,
// before there are threads.
void HeapOfHugePages(size_t bytes);

}  // namespace leat::sim
