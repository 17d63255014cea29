#include <cmath>
#include <numbers>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/matrix/matrix.h"
#include "compute/ops/shape/shape.h"

namespace leat::reference {
namespace {

// Strides to read a matrix or its transpose.
struct Strides {
  int64_t row, column;
};
Strides StridesOf(const Shape& shape, bool transposed) {
  return transposed ? Strides{1, shape[1]} : Strides{shape[1], 1};
}

struct Product {
  explicit Product(const KernelRequest& request) {
    const auto& op = static_cast<const ops::ProductOp&>(request.op);
    const Shape a = ops::MatrixOf(request.inputs[0].shape), b = ops::MatrixOf(request.inputs[1].shape);
    sizes = ops::MatMulSizesOf(a, b, op.transpose_a, op.transpose_b);
    a_strides = StridesOf(a, op.transpose_a);
    b_strides = StridesOf(b, op.transpose_b);
  }

  // y[i, j] = f(sum, j), with the sum in double precision.
  template <class F>
  void Run(const float* a, const float* b, float* y, F f) const {
    for (int64_t i = 0; i < sizes.m; ++i) {
      for (int64_t j = 0; j < sizes.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < sizes.k; ++k) {
          sum += static_cast<double>(a[i * a_strides.row + k * a_strides.column]) *
                 static_cast<double>(b[k * b_strides.row + j * b_strides.column]);
        }
        y[i * sizes.n + j] = f(sum, j);
      }
    }
  }

  ops::MatMulSizes sizes;
  Strides a_strides, b_strides;
};

}  // namespace

double Activate(ops::Activation activation, double x) {
  switch (activation) {
    case ops::Activation::kNone:
      break;
    case ops::Activation::kRelu:
      return x < 0 ? 0 : x;
    case ops::Activation::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case ops::Activation::kTanh:
      return std::tanh(x);
    case ops::Activation::kGelu:
      return x * 0.5 * std::erfc(-x * std::numbers::sqrt2 / 2);
    case ops::Activation::kGeluTanh:
      return x * 0.5 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

namespace {

std::unique_ptr<graph::Kernel> MatMulKernel(const KernelRequest& request) {
  const Product product(request);
  return MakeKernel([product](const KernelArgs& args) {
    product.Run(In(args, 0), In(args, 1), Out(args),
                [](double sum, int64_t) { return static_cast<float>(sum); });
  });
}

std::unique_ptr<graph::Kernel> BatchMatMulKernel(const KernelRequest& request) {
  const Shape &a = request.inputs[0].shape, &b = request.inputs[1].shape, &y = request.outputs[0].shape;
  const Shape a_matrix = ops::MatrixOf(a), b_matrix = ops::MatrixOf(b), batch = ops::BatchOf(y);
  const Product product(request);
  const auto a_strides = ops::BroadcastStrides(ops::BatchOf(a), batch);
  const auto b_strides = ops::BroadcastStrides(ops::BatchOf(b), batch);
  return MakeKernel([=](const KernelArgs& args) {
    ForEach(batch, [&](size_t i, const Index& at) {
      product.Run(In(args, 0) + At(at, a_strides) * static_cast<size_t>(a_matrix.elements()),
                  In(args, 1) + At(at, b_strides) * static_cast<size_t>(b_matrix.elements()),
                  Out(args) + i * static_cast<size_t>(product.sizes.m * product.sizes.n),
                  [](double sum, int64_t) { return static_cast<float>(sum); });
    });
  });
}

std::unique_ptr<graph::Kernel> BiasAddKernel(const KernelRequest& request) {
  const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
  const auto columns = static_cast<size_t>(request.inputs[1].shape[0]);
  return MakeKernel(
      [n, columns](const KernelArgs& args) {
        const float *x = In(args, 0), *b = In(args, 1);
        float* y = Out(args);
        for (size_t i = 0; i < n; ++i) y[i] = x[i] + b[i % columns];
      },
      1);
}

std::unique_ptr<graph::Kernel> DenseKernel(const KernelRequest& request) {
  const Product product(request);
  const auto activation = static_cast<const ops::Dense&>(request.op).activation;
  return MakeKernel([product, activation](const KernelArgs& args) {
    const float* bias = In(args, 2);
    product.Run(In(args, 0), In(args, 1), Out(args), [&](double sum, int64_t j) {
      return static_cast<float>(Activate(activation, sum + static_cast<double>(bias[j])));
    });
  });
}

}  // namespace

void AddMatrix(graph::KernelTable& table) {
  table.Add("batch_matmul", Widened(BatchMatMulKernel));
  table.Add("bias_add", BiasAddKernel);
  table.Add("dense", Widened(DenseKernel));
  table.Add("matmul", Widened(MatMulKernel));
}

}  // namespace leat::reference
