#include <algorithm>
#include <cmath>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/loss/loss.h"

namespace leat::reference {
namespace {

// A tensor viewed as rows along its last axis.
struct LossRows {
  explicit LossRows(const Shape& shape)
      : columns(shape[shape.rank() - 1]), rows(columns == 0 ? 0 : shape.elements() / columns) {}
  int64_t columns, rows;
};

// log Σ e^x of a row. Subtracts the largest element to avoid overflow.
double LogSumExp(const float* x, int64_t n) {
  const double largest = static_cast<double>(*std::max_element(x, x + n));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(x[i]) - largest);
  return largest + std::log(sum);
}

std::unique_ptr<graph::Kernel> SoftmaxKernel(const KernelRequest& request) {
  return MakeKernel([r = LossRows(request.inputs[0].shape)](const KernelArgs& args) {
    for (int64_t row = 0; row < r.rows; ++row) {
      const float* x = In(args, 0) + row * r.columns;
      float* y = Out(args) + row * r.columns;
      const double log_sum = LogSumExp(x, r.columns);
      for (int64_t j = 0; j < r.columns; ++j) {
        y[j] = static_cast<float>(std::exp(static_cast<double>(x[j]) - log_sum));
      }
    }
  });
}

std::unique_ptr<graph::Kernel> SoftmaxGradKernel(const KernelRequest& request) {
  const Shape& shape = request.inputs[0].shape;
  if (shape.rank() == 0) return nullptr;
  return MakeKernel([r = LossRows(shape)](const KernelArgs& args) {
    for (int64_t row = 0; row < r.rows; ++row) {
      const float *y = In(args, 0) + row * r.columns, *dy = In(args, 1) + row * r.columns;
      float* dx = Out(args) + row * r.columns;
      double sum = 0;
      for (int64_t j = 0; j < r.columns; ++j) sum += static_cast<double>(y[j]) * static_cast<double>(dy[j]);
      for (int64_t j = 0; j < r.columns; ++j) {
        dx[j] = static_cast<float>(static_cast<double>(y[j]) * (static_cast<double>(dy[j]) - sum));
      }
    }
  });
}

std::unique_ptr<graph::Kernel> LogSoftmaxKernel(const KernelRequest& request) {
  return MakeKernel([r = LossRows(request.inputs[0].shape)](const KernelArgs& args) {
    for (int64_t row = 0; row < r.rows; ++row) {
      const float* x = In(args, 0) + row * r.columns;
      float* y = Out(args) + row * r.columns;
      const double log_sum = LogSumExp(x, r.columns);
      for (int64_t j = 0; j < r.columns; ++j) y[j] = static_cast<float>(static_cast<double>(x[j]) - log_sum);
    }
  });
}

std::unique_ptr<graph::Kernel> SoftmaxCrossEntropyKernel(const KernelRequest& request) {
  return MakeKernel([r = LossRows(request.inputs[0].shape)](const KernelArgs& args) {
    const float* labels = In(args, 1);
    for (int64_t row = 0; row < r.rows; ++row) {
      const float* x = In(args, 0) + row * r.columns;
      float* probabilities = Out(args, 1) + row * r.columns;
      const double log_sum = LogSumExp(x, r.columns);
      for (int64_t j = 0; j < r.columns; ++j) {
        probabilities[j] = static_cast<float>(std::exp(static_cast<double>(x[j]) - log_sum));
      }
      const int64_t label = ops::ClassOf(labels[row], r.columns);
      Out(args, 0)[row] = label < 0 ? 0 : static_cast<float>(log_sum - static_cast<double>(x[label]));
    }
  });
}

std::unique_ptr<graph::Kernel> SoftmaxCrossEntropyGradKernel(const KernelRequest& request) {
  return MakeKernel(
      [r = LossRows(request.inputs[0].shape)](const KernelArgs& args) {
        const float *labels = In(args, 1), *dloss = In(args, 2);
        for (int64_t row = 0; row < r.rows; ++row) {
          const float* p = In(args, 0) + row * r.columns;
          float* dx = Out(args) + row * r.columns;
          const int64_t label = ops::ClassOf(labels[row], r.columns);
          for (int64_t j = 0; j < r.columns; ++j) {
            dx[j] = label < 0 ? 0 : (p[j] - (j == label ? 1.0f : 0.0f)) * dloss[row];
          }
        }
      },
      1);
}

std::unique_ptr<graph::Kernel> SharesKernel(const KernelRequest& request) {
  const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
  return MakeKernel(
      [n](const KernelArgs& args) {
        const float* w = In(args, 0);
        double sum = 0;
        for (size_t i = 0; i < n; ++i) sum += static_cast<double>(w[i]);
        const auto divisor = static_cast<float>(sum == 0 ? 1 : sum);
        for (size_t i = 0; i < n; ++i) Out(args)[i] = w[i] / divisor;
      },
      1);
}

float SigmoidCrossEntropy(float x, float t) {
  return std::max(x, 0.0f) - x * t + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

void AddLoss(graph::KernelTable& table) {
  table.Add("absolute_error", Binary([](float p, float t) { return std::abs(p - t); }));
  table.Add("huber", GradOf<ops::Huber>([](const ops::Huber& op, float p, float t) {
              const float d = p - t, size = std::abs(d);
              return size > op.delta ? op.delta * (size - op.delta / 2) : d * d / 2;
            }));
  table.Add("log_softmax", LogSoftmaxKernel);
  table.Add("shares", SharesKernel);
  table.Add("sigmoid_cross_entropy", Binary(SigmoidCrossEntropy));
  table.Add("softmax", SoftmaxKernel);
  table.Add("softmax_cross_entropy", SoftmaxCrossEntropyKernel);
  table.Add("softmax_cross_entropy_grad", SoftmaxCrossEntropyGradKernel);
  table.Add("softmax_grad", SoftmaxGradKernel);
  table.Add("squared_error", Binary([](float p, float t) { return (p - t) * (p - t); }));
}

}  // namespace leat::reference
