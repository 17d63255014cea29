// The number of kernels that have finished. Another thread can tell a long computation from one that hangs.
#pragma once

#include <atomic>
#include <cstdint>

namespace leat::engine {

// Thread-safe. Kernels that finish at the same time may count as one: only that the number changes matters,
// and an exact count would cost each kernel a locked instruction.
class Progress {
 public:
  void OnKernel() { kernels_.store(kernels_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  uint64_t kernels() const { return kernels_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> kernels_{0};
};

}  // namespace leat::engine
