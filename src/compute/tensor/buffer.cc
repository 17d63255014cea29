#include "compute/tensor/buffer.h"

#include <cstdint>
#include <cstdlib>
#include <new>

namespace leat {

Buffer::Buffer(size_t bytes) : size_(bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (rounded < bytes) throw std::bad_alloc();
  // calloc gets large blocks as untouched zero pages from the kernel. It does not align, so align here.
  auto* raw = static_cast<std::byte*>(std::calloc(rounded + kAlignment, 1));
  if (raw == nullptr) throw std::bad_alloc();
  auto at = reinterpret_cast<uintptr_t>(raw);
  auto* aligned = raw + ((kAlignment - at % kAlignment) % kAlignment);
  memory_ = std::shared_ptr<std::byte>(aligned, [raw](std::byte*) { std::free(raw); });
}

}  // namespace leat
