#include <algorithm>
#include <cmath>

#include "base/multiversion.h"
#include "compute/kernels/cpu/kernels.h"
#include "compute/ops/normalize/normalize.h"

namespace leat::cpu {
namespace {

struct NormRows {
  size_t count, size;
};

NormRows NormRowsOf(const TensorType& x) {
  const auto size = static_cast<size_t>(x.shape[x.shape.rank() - 1]);
  return {size == 0 ? 0 : Elements(x) / size, size};
}

LEAT_MULTIVERSION
void LayerNorm(const float* x, const float* scale, const float* offset, float* y, float* means,
               float* inverses, const NormRows& rows, float epsilon) {
  const size_t n = rows.size;
  const float share = 1.0f / static_cast<float>(n);
  for (size_t row = 0; row < rows.count; ++row, x += n, y += n) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; ++i) sum += x[i];
    const float mean = sum * share;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1.0f / std::sqrt(squares * share + epsilon);
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * inverse * scale[i] + offset[i];
    means[row] = mean;
    inverses[row] = inverse;
  }
}

struct LayerNormGradArgs {
  const float *x, *scale, *means, *inverses, *dy;
  float *dx, *dscale, *doffset;
};

LEAT_MULTIVERSION
void LayerNormGrad(const LayerNormGradArgs& a, const NormRows& rows) {
  const size_t n = rows.size;
  const float share = 1.0f / static_cast<float>(n);
  const float *x = a.x, *dy = a.dy, *scale = a.scale;
  float *dx = a.dx, *dscale = a.dscale, *doffset = a.doffset;
  std::fill(dscale, dscale + n, 0.0f);
  std::fill(doffset, doffset + n, 0.0f);
  for (size_t row = 0; row < rows.count; ++row, x += n, dy += n, dx += n) {
    const float mean = a.means[row], inverse = a.inverses[row];
    float level = 0, along = 0;
#pragma omp simd reduction(+ : level, along)
    for (size_t i = 0; i < n; ++i) {
      const float normal = (x[i] - mean) * inverse;
      const float d = dy[i], scaled = d * scale[i];
      level += scaled;
      along += scaled * normal;
      dscale[i] += d * normal;
      doffset[i] += d;
    }
    level *= share;
    along *= share;
#pragma GCC ivdep
    for (size_t i = 0; i < n; ++i) {
      const float normal = (x[i] - mean) * inverse;
      dx[i] = (dy[i] * scale[i] - level - normal * along) * inverse;
    }
  }
}

KernelPtr MakeLayerNorm(const KernelRequest& request) {
  const auto& op = static_cast<const ops::LayerNorm&>(request.op);
  return Loop(
      [rows = NormRowsOf(request.inputs[0]), epsilon = op.epsilon](const KernelArgs& args) {
        LayerNorm(In(args, 0), In(args, 1), In(args, 2), Out(args, 0), Out(args, 1), Out(args, 2), rows,
                  epsilon);
      },
      {0});
}

KernelPtr MakeLayerNormGrad(const KernelRequest& request) {
  // Safe in place: a row of dy is read completely first, and then again element by element as dx is written.
  return Loop(
      [rows = NormRowsOf(request.inputs[0])](const KernelArgs& args) {
        LayerNormGrad({In(args, 0), In(args, 1), In(args, 2), In(args, 3), In(args, 4), Out(args, 0),
                       Out(args, 1), Out(args, 2)},
                      rows);
      },
      {0, -1, -1, -1, 0});
}

// x viewed as [rows, places, channels], with row weights.
struct Channels {
  explicit Channels(const TensorType& x)
      : rows(static_cast<size_t>(x.shape[0])),
        channels(static_cast<size_t>(x.shape[x.shape.rank() - 1])),
        places(rows * channels == 0 ? 0 : Elements(x) / (rows * channels)) {}

  // 1 / the sum of weights of a channel's elements; 0 if all weights are 0.
  double Share(const float* weights) const {
    double sum = 0;
    for (size_t row = 0; row < rows; ++row) sum += weights[row] > 0 ? static_cast<double>(weights[row]) : 0.0;
    sum *= static_cast<double>(places);
    return sum > 0 ? 1.0 / sum : 0.0;
  }
  size_t row_size() const { return places * channels; }

  size_t rows, channels, places;
};

// sums += weight · part. Each row is summed in single precision, the rows in double.
LEAT_MULTIVERSION
void Gather(const float* __restrict part, float weight, double* __restrict sums, size_t n) {
  for (size_t c = 0; c < n; ++c) sums[c] += static_cast<double>(weight * part[c]);
}

LEAT_MULTIVERSION
void SumPlaces(const float* __restrict x, float* __restrict sums, size_t places, size_t n) {
  std::fill(sums, sums + n, 0.0f);
  for (size_t p = 0; p < places; ++p, x += n) {
    for (size_t c = 0; c < n; ++c) sums[c] += x[c];
  }
}

LEAT_MULTIVERSION
void SumSquares(const float* __restrict x, const float* __restrict means, float* __restrict sums,
                size_t places, size_t n) {
  std::fill(sums, sums + n, 0.0f);
  for (size_t p = 0; p < places; ++p, x += n) {
    for (size_t c = 0; c < n; ++c) sums[c] += (x[c] - means[c]) * (x[c] - means[c]);
  }
}

// y may overwrite x.
LEAT_MULTIVERSION
void Normalize(const float* x, const float* __restrict means, const float* __restrict factors,
               const float* __restrict offset, float* y, size_t places, size_t n) {
  for (size_t p = 0; p < places; ++p, x += n, y += n) {
#pragma GCC ivdep
    for (size_t c = 0; c < n; ++c) y[c] = (x[c] - means[c]) * factors[c] + offset[c];
  }
}

// along[c] = Σ dy (x - mean), level[c] = Σ dy
LEAT_MULTIVERSION
void SumGrads(const float* __restrict x, const float* __restrict dy, const float* __restrict means,
              float* __restrict along, float* __restrict level, size_t places, size_t n) {
  std::fill(along, along + n, 0.0f);
  std::fill(level, level + n, 0.0f);
  for (size_t p = 0; p < places; ++p, x += n, dy += n) {
    for (size_t c = 0; c < n; ++c) {
      along[c] += dy[c] * (x[c] - means[c]);
      level[c] += dy[c];
    }
  }
}

// dx = factor (dy - weight (level + along (x - mean))); dx may overwrite x or dy.
LEAT_MULTIVERSION
void SpreadGrads(const float* x, const float* dy, const float* __restrict means,
                 const float* __restrict factors, const float* __restrict along,
                 const float* __restrict level, float weight, float* dx, size_t places, size_t n) {
  for (size_t p = 0; p < places; ++p, x += n, dy += n, dx += n) {
#pragma GCC ivdep
    for (size_t c = 0; c < n; ++c) {
      dx[c] = factors[c] * (dy[c] - weight * (level[c] + along[c] * (x[c] - means[c])));
    }
  }
}

// Layout of the scratch memory: double channel sums, then float ones.
struct ChannelSums {
  ChannelSums(std::byte* scratch, size_t channels, size_t doubles) {
    sums = reinterpret_cast<double*>(scratch);
    floats = reinterpret_cast<float*>(sums + doubles * channels);
    std::fill_n(sums, doubles * channels, 0.0);
  }
  static size_t Bytes(size_t channels, size_t doubles, size_t floats) {
    return channels * (doubles * sizeof(double) + floats * sizeof(float));
  }
  double* sums;
  float* floats;
};

class BatchNormKernel final : public graph::Kernel {
 public:
  explicit BatchNormKernel(const KernelRequest& request)
      : c_(request.inputs[0]), epsilon_(static_cast<const ops::BatchNorm&>(request.op).epsilon) {}
  size_t scratch_bytes() const override { return ChannelSums::Bytes(c_.channels, 2, 2); }
  int OutputInPlaceOf(int input) const override { return input == 0 ? 0 : -1; }

  void Run(const KernelArgs& args) override {
    const float *x = In(args, 0), *scale = In(args, 1), *offset = In(args, 2), *weights = In(args, 3);
    float *y = Out(args, 0), *mean = Out(args, 1), *variance = Out(args, 2);
    const size_t n = c_.channels, size = c_.row_size();
    const ChannelSums s(args.scratch, n, 2);
    float *part = s.floats, *factors = part + n;
    const double share = c_.Share(weights);
    ForRows(weights, [&](size_t row) {
      SumPlaces(x + row * size, part, c_.places, n);
      Gather(part, weights[row], s.sums, n);
    });
    for (size_t c = 0; c < n; ++c) mean[c] = static_cast<float>(s.sums[c] * share);
    double* squares = s.sums + n;
    ForRows(weights, [&](size_t row) {
      SumSquares(x + row * size, mean, part, c_.places, n);
      Gather(part, weights[row], squares, n);
    });
    for (size_t c = 0; c < n; ++c) {
      variance[c] = static_cast<float>(squares[c] * share);
      factors[c] = scale[c] / std::sqrt(variance[c] + epsilon_);
    }
    for (size_t row = 0; row < c_.rows; ++row) {
      float* out = y + row * size;
      if (weights[row] > 0) {
        Normalize(x + row * size, mean, factors, offset, out, c_.places, n);
      } else {
        std::fill_n(out, size, 0.0f);
      }
    }
  }

 private:
  template <class F>
  void ForRows(const float* weights, F f) const {
    for (size_t row = 0; row < c_.rows; ++row) {
      if (weights[row] > 0) f(row);
    }
  }

  const Channels c_;
  const float epsilon_;
};

class BatchNormGradKernel final : public graph::Kernel {
 public:
  explicit BatchNormGradKernel(const KernelRequest& request)
      : c_(request.inputs[0]), epsilon_(static_cast<const ops::BatchNormGrad&>(request.op).epsilon) {}
  size_t scratch_bytes() const override { return ChannelSums::Bytes(c_.channels, 2, 3); }
  int OutputInPlaceOf(int input) const override { return input == 0 || input == 5 ? 0 : -1; }

  void Run(const KernelArgs& args) override {
    const float *x = In(args, 0), *scale = In(args, 1), *weights = In(args, 2), *mean = In(args, 3);
    const float *variance = In(args, 4), *dy = In(args, 5);
    float *dx = Out(args, 0), *dscale = Out(args, 1), *doffset = Out(args, 2);
    const size_t n = c_.channels, size = c_.row_size();
    const ChannelSums s(args.scratch, n, 2);
    double *along_sums = s.sums, *level_sums = s.sums + n;
    float *along = s.floats, *level = along + n, *factors = level + n;
    const double share = c_.Share(weights);
    for (size_t row = 0; row < c_.rows; ++row) {
      if (!(weights[row] > 0)) continue;
      SumGrads(x + row * size, dy + row * size, mean, along, level, c_.places, n);
      Gather(along, 1.0f, along_sums, n);
      Gather(level, 1.0f, level_sums, n);
    }
    for (size_t c = 0; c < n; ++c) {
      const double inverse =
          1.0 / std::sqrt(static_cast<double>(variance[c]) + static_cast<double>(epsilon_));
      dscale[c] = static_cast<float>(along_sums[c] * inverse);
      doffset[c] = static_cast<float>(level_sums[c]);
      factors[c] = static_cast<float>(static_cast<double>(scale[c]) * inverse);
      along[c] = static_cast<float>(along_sums[c] * inverse * inverse * share);
      level[c] = static_cast<float>(level_sums[c] * share);
    }
    for (size_t row = 0; row < c_.rows; ++row) {
      const size_t at = row * size;
      if (weights[row] > 0) {
        SpreadGrads(x + at, dy + at, mean, factors, along, level, weights[row], dx + at, c_.places, n);
      } else {
        std::fill_n(dx + at, size, 0.0f);
      }
    }
  }

 private:
  const Channels c_;
  const float epsilon_;
};

LEAT_MULTIVERSION
void Drop(const float* x, float* y, size_t n, ops::DropoutMask::Keys keys, int32_t threshold, float factor) {
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i) {
    const int32_t bits = ops::DropoutMask::Bits(static_cast<uint32_t>(i), keys);
    const float kept = x[i] * factor;
    y[i] = bits < threshold ? 0.0f : kept;
  }
}

KernelPtr MakeDropout(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Dropout&>(request.op);
  const size_t n = Elements(request.outputs[0]);
  return Loop(
      [&op, n](const KernelArgs& args) {
        const ops::DropoutMask mask(op, *reinterpret_cast<const int64_t*>(args.inputs[1]));
        constexpr size_t kBlock = size_t{1} << 32;
        for (size_t begin = 0; begin < n; begin += kBlock) {
          Drop(In(args, 0) + begin, Out(args, 0) + begin, std::min(kBlock, n - begin),
               mask.KeysOf(begin / kBlock), mask.threshold(), mask.factor());
        }
      },
      {0});
}

}  // namespace

void AddNormalize(graph::KernelTable& table) {
  table.Add("batch_norm", [](const KernelRequest& request) -> KernelPtr {
    return std::make_unique<BatchNormKernel>(request);
  });
  table.Add("batch_norm_grad", [](const KernelRequest& request) -> KernelPtr {
    return std::make_unique<BatchNormGradKernel>(request);
  });
  table.Add("dropout", MakeDropout);
  table.Add("layer_norm", MakeLayerNorm);
  table.Add("layer_norm_grad", MakeLayerNormGrad);
}

}  // namespace leat::cpu
