// Counts every allocation of the test program, so that tests can check that a run allocates nothing.
#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> count{0};
}  // namespace

void* operator new(size_t size) {
  ++count;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++count;
  return std::malloc(size);
}
void operator delete(void* p) noexcept {
  std::free(p);
}
void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace leat::engine {

size_t AllocationCount();
size_t AllocationCount() {
  return count;
}

}  // namespace leat::engine
