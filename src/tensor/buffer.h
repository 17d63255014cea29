// Memory for tensors: 64-byte aligned, zeroed, shared by count.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace leat {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

  Buffer() = default;
  // Zeroed. Large buffers come straight from the kernel, so pages that are never touched cost nothing.
  explicit Buffer(size_t bytes);

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

}  // namespace leat
