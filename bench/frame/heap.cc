#include "heap.h"

#include <dlfcn.h>
#include <malloc.h>
#include <unwind.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

// glibc's allocator under its internal names. The functions below replace the public ones.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* p, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace leat::bench {
namespace {

thread_local bool watching = false;
thread_local HeapCounts seen;

_Unwind_Reason_Code LookAtFrame(_Unwind_Context* context, void* found) {
  Dl_info info;
  const auto address = reinterpret_cast<void*>(_Unwind_GetIP(context));
  if (dladdr(address, &info) != 0 && info.dli_fname != nullptr &&
      std::strstr(info.dli_fname, "libdnnl") != nullptr) {
    *static_cast<bool*>(found) = true;
    return _URC_END_OF_STACK;
  }
  return _URC_NO_REASON;
}

void Count() {
  if (!watching) return;
  watching = false;  // walking the stack may allocate
  bool dnnl = false;
  _Unwind_Backtrace(LookAtFrame, &dnnl);
  ++(dnnl ? seen.dnnl : seen.own);
  watching = true;
}

}  // namespace

HeapWatch::HeapWatch() {
  seen = {};
  watching = true;
}

HeapWatch::~HeapWatch() {
  watching = false;
}

HeapCounts HeapWatch::counts() const {
  return seen;
}

}  // namespace leat::bench

// Shared libraries find these, whatever the visibility of this build's own symbols.
#pragma GCC visibility push(default)
extern "C" {

void* malloc(size_t size) {
  leat::bench::Count();
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  leat::bench::Count();
  return __libc_calloc(count, size);
}

void* realloc(void* p, size_t size) {
  leat::bench::Count();
  return __libc_realloc(p, size);
}

void* memalign(size_t alignment, size_t size) {
  leat::bench::Count();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  leat::bench::Count();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** p, size_t alignment, size_t size) {
  leat::bench::Count();
  *p = __libc_memalign(alignment, size);
  return *p == nullptr ? ENOMEM : 0;
}

}  // extern "C"
#pragma GCC visibility pop
