// The matrix products of a dense network's training step and nothing else, straight through oneDNN: what no
// engine built on it can be faster than.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tensor/buffer.h"

namespace leat::bench {

// For each layer the product forward, the one for its weights and, but for the first, the one for its input,
// in the order of a step and on one set of row-major matrices. Each is the faster of oneDNN's two ways to do
// it, the matmul primitive and sgemm, tried beforehand. For one thread.
class Products {
 public:
  Products(const std::vector<int64_t>& sizes, int64_t batch);
  void Run() const;
  // Floating-point operations of one run.
  double flops() const { return flops_; }

 private:
  float* Matrix(int64_t rows, int64_t columns);
  // y[m, n] = a[m, k] b[k, n], either of them stored transposed.
  void Add(float* y, const float* a, bool transpose_a, const float* b, bool transpose_b, int64_t m, int64_t n,
           int64_t k);

  std::vector<Buffer> matrices_;
  std::vector<std::function<void()>> calls_;
  double flops_ = 0;
};

}  // namespace leat::bench
