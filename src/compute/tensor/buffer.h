// Memory for tensors: 64-byte aligned and reference-counted.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>

namespace leat {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  Buffer() = default;
  // Allocates zeroed memory. Pages of large buffers that are never touched cost nothing. Throws
  // std::bad_alloc.
  explicit Buffer(size_t bytes);
  // Wraps memory from another allocator, which must be kAlignment-aligned.
  static Buffer Of(std::shared_ptr<std::byte> memory, size_t bytes) {
    Buffer buffer;
    buffer.memory_ = std::move(memory);
    buffer.size_ = bytes;
    return buffer;
  }

  std::byte* data() const { return memory_.get(); }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() const { return {data(), size_}; }
  explicit operator bool() const { return memory_ != nullptr; }
  // Whether another Buffer shares this memory. Approximate if other threads copy or drop theirs meanwhile.
  bool shared() const { return memory_.use_count() > 1; }

 private:
  std::shared_ptr<std::byte> memory_;
  size_t size_ = 0;
};

// An allocator of zeroed buffers.
using Allocate = std::function<Buffer(size_t bytes)>;

}  // namespace leat
