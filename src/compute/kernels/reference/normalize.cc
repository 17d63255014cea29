#include <algorithm>
#include <cmath>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/normalize/normalize.h"
#include "compute/optim/moments.h"

namespace leat::reference {
namespace {

struct NormRows {
  int64_t count, size;
};

// Rows along the last axis, which has `size` elements.
NormRows RowsOf(const TensorType& x) {
  const int64_t size = x.shape[x.shape.rank() - 1];
  return {size == 0 ? 0 : x.shape.elements() / size, size};
}

std::unique_ptr<graph::Kernel> LayerNormKernel(const KernelRequest& request) {
  const double epsilon = static_cast<double>(static_cast<const ops::LayerNorm&>(request.op).epsilon);
  return MakeKernel([r = RowsOf(request.inputs[0]), epsilon](const KernelArgs& args) {
    const float *scale = In(args, 1), *offset = In(args, 2);
    for (int64_t row = 0; row < r.count; ++row) {
      const float* x = In(args, 0) + row * r.size;
      float* y = Out(args) + row * r.size;
      const auto n = static_cast<double>(r.size);
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < r.size; ++i) mean += static_cast<double>(x[i]) / n;
      for (int64_t i = 0; i < r.size; ++i) variance += std::pow(static_cast<double>(x[i]) - mean, 2) / n;
      const double inverse = 1 / std::sqrt(variance + epsilon);
      for (int64_t i = 0; i < r.size; ++i) {
        y[i] =
            static_cast<float>((static_cast<double>(x[i]) - mean) * inverse * static_cast<double>(scale[i]) +
                               static_cast<double>(offset[i]));
      }
      Out(args, 1)[row] = static_cast<float>(mean);
      Out(args, 2)[row] = static_cast<float>(inverse);
    }
  });
}

// Column sums are in double precision in scratch memory.
std::unique_ptr<graph::Kernel> LayerNormGradKernel(const KernelRequest& request) {
  const NormRows r = RowsOf(request.inputs[0]);
  return MakeSums(2 * r.size, [r, n = r.size](const KernelArgs& args, double* dscale) {
    const float* scale = In(args, 1);
    double* doffset = dscale + n;
    for (int64_t row = 0; row < r.count; ++row) {
      const float *x = In(args, 0) + row * n, *dy = In(args, 4) + row * n;
      float* dx = Out(args) + row * n;
      const double mean = static_cast<double>(In(args, 2)[row]);
      const double inverse = static_cast<double>(In(args, 3)[row]);
      const auto normal = [&](int64_t i) { return (static_cast<double>(x[i]) - mean) * inverse; };
      const auto scaled = [&](int64_t i) {
        return static_cast<double>(dy[i]) * static_cast<double>(scale[i]);
      };
      double level = 0, along = 0;
      for (int64_t i = 0; i < n; ++i) {
        level += scaled(i) / static_cast<double>(n);
        along += scaled(i) * normal(i) / static_cast<double>(n);
        dscale[i] += static_cast<double>(dy[i]) * normal(i);
        doffset[i] += static_cast<double>(dy[i]);
      }
      for (int64_t i = 0; i < n; ++i) {
        dx[i] = static_cast<float>((scaled(i) - level - normal(i) * along) * inverse);
      }
    }
    for (int64_t i = 0; i < n; ++i) Out(args, 1)[i] = static_cast<float>(dscale[i]);
    for (int64_t i = 0; i < n; ++i) Out(args, 2)[i] = static_cast<float>(doffset[i]);
  });
}

// x viewed as [rows, places, channels], with row weights.
struct Channels {
  explicit Channels(const TensorType& x)
      : rows(x.shape[0]), channels(x.shape[x.shape.rank() - 1]), places(1) {
    for (size_t i = 1; i + 1 < x.shape.rank(); ++i) places *= x.shape[i];
  }
  // Calls f(row, position in x) for all elements of a channel in rows with weight > 0.
  template <class F>
  void ForEach(int64_t channel, const float* weights, F f) const {
    for (int64_t row = 0; row < rows; ++row) {
      if (!(weights[row] > 0)) continue;
      for (int64_t p = 0; p < places; ++p) f(row, (row * places + p) * channels + channel);
    }
  }
  // Divisor of weighted sums; 1 if all weights are 0.
  double Total(const float* weights) const {
    double sum = 0;
    for (int64_t row = 0; row < rows; ++row) sum += weights[row] > 0 ? static_cast<double>(weights[row]) : 0;
    sum *= static_cast<double>(places);
    return sum > 0 ? sum : 1;
  }
  int64_t elements() const { return rows * places * channels; }

  int64_t rows, channels, places;
};

std::unique_ptr<graph::Kernel> BatchNormKernel(const KernelRequest& request) {
  const double epsilon = static_cast<double>(static_cast<const ops::BatchNorm&>(request.op).epsilon);
  return MakeKernel([c = Channels(request.inputs[0]), epsilon](const KernelArgs& args) {
    const float *x = In(args, 0), *weights = In(args, 3);
    float* y = Out(args);
    std::fill_n(y, c.elements(), 0.0f);
    const double total = c.Total(weights);
    for (int64_t channel = 0; channel < c.channels; ++channel) {
      const double scale = static_cast<double>(In(args, 1)[channel]);
      const double offset = static_cast<double>(In(args, 2)[channel]);
      double mean = 0, variance = 0;
      c.ForEach(channel, weights, [&](int64_t row, int64_t i) {
        mean += static_cast<double>(weights[row]) * static_cast<double>(x[i]) / total;
      });
      c.ForEach(channel, weights, [&](int64_t row, int64_t i) {
        const double d = static_cast<double>(x[i]) - mean;
        variance += static_cast<double>(weights[row]) * d * d / total;
      });
      c.ForEach(channel, weights, [&](int64_t, int64_t i) {
        const double normal = (static_cast<double>(x[i]) - mean) / std::sqrt(variance + epsilon);
        y[i] = static_cast<float>(normal * scale + offset);
      });
      Out(args, 1)[channel] = static_cast<float>(mean);
      Out(args, 2)[channel] = static_cast<float>(variance);
    }
  });
}

std::unique_ptr<graph::Kernel> BatchNormGradKernel(const KernelRequest& request) {
  const double epsilon = static_cast<double>(static_cast<const ops::BatchNormGrad&>(request.op).epsilon);
  return MakeKernel([c = Channels(request.inputs[0]), epsilon](const KernelArgs& args) {
    const float *x = In(args, 0), *weights = In(args, 2), *dy = In(args, 5);
    float* dx = Out(args);
    std::fill_n(dx, c.elements(), 0.0f);
    const double total = c.Total(weights);
    for (int64_t channel = 0; channel < c.channels; ++channel) {
      const double scale = static_cast<double>(In(args, 1)[channel]);
      const double mean = static_cast<double>(In(args, 3)[channel]);
      const double inverse = 1 / std::sqrt(static_cast<double>(In(args, 4)[channel]) + epsilon);
      const auto normal = [&](int64_t i) { return (static_cast<double>(x[i]) - mean) * inverse; };
      double dscale = 0, doffset = 0;
      c.ForEach(channel, weights, [&](int64_t, int64_t i) {
        dscale += static_cast<double>(dy[i]) * normal(i);
        doffset += static_cast<double>(dy[i]);
      });
      c.ForEach(channel, weights, [&](int64_t row, int64_t i) {
        const double share = static_cast<double>(weights[row]) / total;
        const double through = share * (doffset + normal(i) * dscale);
        dx[i] = static_cast<float>((static_cast<double>(dy[i]) - through) * inverse * scale);
      });
      Out(args, 1)[channel] = static_cast<float>(dscale);
      Out(args, 2)[channel] = static_cast<float>(doffset);
    }
  });
}

std::unique_ptr<graph::Kernel> DropoutKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Dropout&>(request.op);
  const auto n = static_cast<uint64_t>(request.outputs[0].shape.elements());
  return MakeKernel(
      [&op, n](const KernelArgs& args) {
        const ops::DropoutMask mask(op, *reinterpret_cast<const int64_t*>(args.inputs[1]));
        const float* x = In(args, 0);
        for (uint64_t i = 0; i < n; ++i) {
          const auto bits = ops::DropoutMask::Bits(static_cast<uint32_t>(i), mask.KeysOf(i >> 32));
          Out(args)[i] = bits < mask.threshold() ? 0 : x[i] * mask.factor();
        }
      },
      1);
}

// The corrected two-pass algorithm (Chan, Golub and LeVeque 1983): the sum of the deviations, which rounding
// keeps from 0, is taken off that of their squares.
class MomentsKernel final : public graph::Kernel {
 public:
  explicit MomentsKernel(const KernelRequest& request)
      : rows_(request.inputs[0].shape[0]),
        width_(rows_ == 0 ? 0 : request.inputs[0].shape.elements() / rows_),
        columns_(static_cast<size_t>(request.inputs[2].shape[0])) {}
  size_t scratch_bytes() const override { return columns_ * sizeof(Column); }

  void Run(const KernelArgs& args) override {
    const std::span<Column> sums(reinterpret_cast<Column*>(args.scratch), columns_);
    std::ranges::fill(sums, Column());
    ForEach(args, sums, [](Column& sum, double x) {
      ++sum.moments.count;
      sum.moments.mean += x;
    });
    for (Column& sum : sums)
      sum.moments.mean /= static_cast<double>(std::max<uint64_t>(sum.moments.count, 1));
    ForEach(args, sums, [](Column& sum, double x) {
      const double deviation = x - sum.moments.mean;
      sum.moments.m2 += deviation * deviation;
      sum.rest += deviation;
    });
    const std::span<float> words(Out(args), columns_ * optim::kMomentWords);
    for (size_t c = 0; c < columns_; ++c) {
      optim::Moments& moments = sums[c].moments;
      if (moments.count > 0) moments.m2 -= sums[c].rest * sums[c].rest / static_cast<double>(moments.count);
      moments.m2 = std::max(moments.m2, 0.0);
      optim::PutMoments(words, c, moments);
    }
  }

 private:
  struct Column {
    optim::Moments moments;
    double rest = 0;  // the sum of the deviations
  };

  template <class F>
  void ForEach(const KernelArgs& args, std::span<Column> sums, F add) const {
    const float *x = In(args, 0), *weights = In(args, 1);
    const auto* columns = reinterpret_cast<const int32_t*>(args.inputs[2]);
    for (int64_t row = 0; row < rows_; ++row, x += width_) {
      if (!(weights[row] > 0)) continue;
      for (size_t c = 0; c < columns_; ++c) {
        const float value = x[columns[c]];
        if (std::isfinite(value)) add(sums[c], static_cast<double>(value));
      }
    }
  }

  const int64_t rows_, width_;
  const size_t columns_;
};

std::unique_ptr<graph::Kernel> MomentsScalingKernel(const KernelRequest& request) {
  const int64_t size = static_cast<const ops::MomentsScaling&>(request.op).row.elements();
  const auto count = static_cast<size_t>(request.inputs[2].shape[0]);
  return MakeKernel([size, count](const KernelArgs& args) {
    const std::span<const float> running(In(args, 0), count * optim::kMomentWords);
    const std::span<const float> batch(In(args, 1), count * optim::kMomentWords);
    const auto* columns = reinterpret_cast<const int32_t*>(args.inputs[2]);
    std::fill_n(Out(args, 0), size, 0.0f);
    std::fill_n(Out(args, 1), size, 0.0f);
    std::fill_n(Out(args, 2), size, 1.0f);
    for (size_t c = 0; c < count; ++c) {
      optim::Moments moments = optim::GetMoments(running, c);
      if (moments.count == 0) moments = optim::GetMoments(batch, c);
      const optim::Scaling by = optim::ScalingOf(moments);
      Out(args, 0)[columns[c]] = by.shift;
      Out(args, 1)[columns[c]] = by.rest;
      Out(args, 2)[columns[c]] = by.factor;
    }
  });
}

}  // namespace

void AddNormalize(graph::KernelTable& table) {
  table.Add("batch_norm", BatchNormKernel);
  table.Add("batch_norm_grad", BatchNormGradKernel);
  table.Add("dropout", DropoutKernel);
  table.Add("layer_norm", LayerNormKernel);
  table.Add("layer_norm_grad", LayerNormGradKernel);
  table.Add("moments", [](const KernelRequest& request) { return std::make_unique<MomentsKernel>(request); });
  table.Add("moments_scaling", MomentsScalingKernel);
}

}  // namespace leat::reference
