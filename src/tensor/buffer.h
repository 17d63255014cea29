// Memory for tensors: 64-byte aligned, zeroed, shared by count.
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
  // Zeroed. Large buffers come straight from the kernel, so pages that are never touched cost nothing.
  explicit Buffer(size_t bytes);
  // Memory that came from elsewhere: as aligned, and zeroed where that is asked of it.
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
  // Others hold this memory too. What another thread does with its hold may be seen late.
  bool shared() const { return memory_.use_count() > 1; }

 private:
  std::shared_ptr<std::byte> memory_;
  size_t size_ = 0;
};

// Where memory comes from, zeroed.
using Allocate = std::function<Buffer(size_t bytes)>;

}  // namespace leat
