// The matrix products of a dense network's training step, computed directly by oneDNN: a lower bound on the
// time of an engine that uses oneDNN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "compute/tensor/buffer.h"

namespace leat::bench {

// Each layer has a product for its output, one for the gradient of its weights and, except for the first
// layer, one for the gradient of its input. They run in the order of a step, on one set of row-major
// matrices, in one thread. Each uses the faster of oneDNN's matmul primitive and sgemm, as measured
// beforehand.
class Products {
 public:
  Products(const std::vector<int64_t>& sizes, int64_t batch);
  void Run() const;
  // Floating-point operations of one run.
  double flops() const { return flops_; }

 private:
  float* Matrix(int64_t rows, int64_t columns);
  // y[m, n] = a[m, k] b[k, n]; a and b may be stored transposed.
  void Add(float* y, const float* a, bool transpose_a, const float* b, bool transpose_b, int64_t m, int64_t n,
           int64_t k);

  std::vector<Buffer> matrices_;
  std::vector<std::function<void()>> calls_;
  double flops_ = 0;
};

}  // namespace leat::bench
