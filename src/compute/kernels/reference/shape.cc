#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "compute/kernels/reference/kernels.h"
#include "compute/ops/shape/reduce.h"
#include "compute/ops/shape/shape.h"
#include "compute/tensor/dtype.h"

namespace leat::reference {
namespace {

// y[j] = factor · the sum of all x that map to j, where `to` broadcasts to `from`.
std::unique_ptr<graph::Kernel> Sum(const Shape& from, const Shape& to, double factor) {
  return MakeSums(to.elements(), [from, strides = ops::BroadcastStrides(to, from), factor, n = to.elements()](
                                     const KernelArgs& args, double* sums) {
    const float* x = In(args, 0);
    ForEach(from, [&](size_t i, const Index& at) { sums[At(at, strides)] += static_cast<double>(x[i]); });
    for (int64_t j = 0; j < n; ++j) Out(args)[j] = static_cast<float>(sums[j] * factor);
  });
}

template <bool kMean>
std::unique_ptr<graph::Kernel> Reduce(const KernelRequest& request) {
  const Shape& from = request.inputs[0].shape;
  const Shape kept = static_cast<const ops::ReduceOp&>(request.op).KeptShape(from);
  return Sum(from, kept,
             kMean ? static_cast<double>(kept.elements()) / static_cast<double>(from.elements()) : 1.0);
}

// y[i] = x[offset + strides · index of i]
std::unique_ptr<graph::Kernel> Gather(const TensorType& type, std::vector<int64_t> strides,
                                      int64_t offset = 0) {
  return WithType(type.dtype, [&](auto element) {
    using T = decltype(element);
    return MakeKernel([shape = type.shape, strides, offset](const KernelArgs& args) {
      const T* x = reinterpret_cast<const T*>(args.inputs[0]);
      T* y = reinterpret_cast<T*>(args.outputs[0]);
      ForEach(shape,
              [&](size_t i, const Index& at) { y[i] = x[static_cast<size_t>(offset) + At(at, strides)]; });
    });
  });
}

// Maps elements of a padded tensor to elements of the original; -1 for none.
struct PadPlaces {
  PadPlaces(const Shape& from, const Shape& to, const std::vector<int64_t>& b, ops::PadMode m)
      : inside(from), padded(to), before(b), strides(ops::StridesOf(from)), mode(m) {}

  int64_t SourceOf(const Index& at) const {
    int64_t place = 0;
    for (size_t i = 0; i < inside.rank(); ++i) {
      int64_t from = at[i] - before[i];
      if (from < 0 || from >= inside[i]) {
        if (mode == ops::PadMode::kConstant) return -1;
        from = ops::PadSource(mode, at[i], before[i], inside[i]);
      }
      place += from * strides[i];
    }
    return place;
  }

  Shape inside, padded;
  std::vector<int64_t> before, strides;
  ops::PadMode mode;
};

std::unique_ptr<graph::Kernel> BroadcastToKernel(const KernelRequest& request) {
  const TensorType& type = request.outputs[0];
  return Gather(type, ops::BroadcastStrides(request.inputs[0].shape, type.shape));
}

std::unique_ptr<graph::Kernel> SumToKernel(const KernelRequest& request) {
  return Sum(request.inputs[0].shape, request.outputs[0].shape, 1.0);
}

std::unique_ptr<graph::Kernel> TransposeKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Transpose&>(request.op);
  const std::vector<int64_t> strides = ops::StridesOf(request.inputs[0].shape);
  std::vector<int64_t> permuted;
  for (int axis : op.permutation) permuted.push_back(strides[static_cast<size_t>(axis)]);
  return Gather(request.outputs[0], std::move(permuted));
}

// A tensor of several that are concatenated along an axis.
struct Piece {
  Shape shape;
  int64_t first = 0;  // position of its first element in the whole
};

std::vector<Piece> PiecesOf(const Shape& whole, int axis, std::span<const TensorType> types) {
  const size_t along = ops::AxisOf(axis, whole.rank());
  const int64_t stride = ops::StridesOf(whole)[along];
  std::vector<Piece> pieces;
  int64_t begin = 0;
  for (const TensorType& type : types) {
    pieces.push_back({type.shape, begin * stride});
    begin += type.shape[along];
  }
  return pieces;
}

std::unique_ptr<graph::Kernel> ConcatKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Concat&>(request.op);
  const Shape& shape = request.outputs[0].shape;
  const std::vector<int64_t> strides = ops::StridesOf(shape);
  const std::vector<Piece> pieces = PiecesOf(shape, op.axis, request.inputs);
  return WithType(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return MakeKernel([pieces, strides](const KernelArgs& args) {
      for (size_t p = 0; p < pieces.size(); ++p) {
        const T* x = reinterpret_cast<const T*>(args.inputs[p]);
        T* y = reinterpret_cast<T*>(args.outputs[0]) + pieces[p].first;
        ForEach(pieces[p].shape, [&](size_t i, const Index& at) { y[At(at, strides)] = x[i]; });
      }
    });
  });
}

std::unique_ptr<graph::Kernel> SplitKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Split&>(request.op);
  const Shape& shape = request.inputs[0].shape;
  const std::vector<int64_t> strides = ops::StridesOf(shape);
  const std::vector<Piece> pieces = PiecesOf(shape, op.axis, request.outputs);
  return WithType(request.inputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return MakeKernel([pieces, strides](const KernelArgs& args) {
      for (size_t p = 0; p < pieces.size(); ++p) {
        const T* x = reinterpret_cast<const T*>(args.inputs[0]) + pieces[p].first;
        T* y = reinterpret_cast<T*>(args.outputs[p]);
        ForEach(pieces[p].shape, [&](size_t i, const Index& at) { y[i] = x[At(at, strides)]; });
      }
    });
  });
}

std::unique_ptr<graph::Kernel> SliceKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Slice&>(request.op);
  const Shape& from = request.inputs[0].shape;
  return Gather(request.outputs[0], ops::Stepped(ops::StridesOf(from), op.step),
                ops::OffsetOf(from, op.begin));
}

std::unique_ptr<graph::Kernel> SliceGradKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::SliceGrad&>(request.op);
  const Shape &from = request.inputs[0].shape, &to = request.outputs[0].shape;
  return MakeKernel([from, n = static_cast<size_t>(to.elements()),
                     strides = ops::Stepped(ops::StridesOf(to), op.step),
                     offset = ops::OffsetOf(to, op.begin)](const KernelArgs& args) {
    const float* x = In(args, 0);
    float* y = Out(args);
    std::fill_n(y, n, 0.0f);
    ForEach(from,
            [&](size_t i, const Index& at) { y[static_cast<size_t>(offset) + At(at, strides)] = x[i]; });
  });
}

std::unique_ptr<graph::Kernel> PadKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::Pad&>(request.op);
  const PadPlaces places(request.inputs[0].shape, request.outputs[0].shape, op.before, op.mode);
  return WithType(request.outputs[0].dtype, [&](auto element) {
    using T = decltype(element);
    return MakeKernel([places, value = ConvertTo<T>(op.value)](const KernelArgs& args) {
      const T* x = reinterpret_cast<const T*>(args.inputs[0]);
      T* y = reinterpret_cast<T*>(args.outputs[0]);
      ForEach(places.padded, [&](size_t i, const Index& at) {
        const int64_t from = places.SourceOf(at);
        y[i] = from < 0 ? value : x[from];
      });
    });
  });
}

std::unique_ptr<graph::Kernel> PadGradKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::PadGrad&>(request.op);
  const PadPlaces places(request.outputs[0].shape, request.inputs[0].shape, op.before, op.mode);
  const auto n = static_cast<size_t>(request.outputs[0].shape.elements());
  return MakeKernel([places, n](const KernelArgs& args) {
    const float* dy = In(args, 0);
    float* dx = Out(args);
    std::fill_n(dx, n, 0.0f);
    ForEach(places.padded, [&](size_t i, const Index& at) { dx[places.SourceOf(at)] += dy[i]; });
  });
}

// The groups of elements that a reduction makes one of.
struct Groups {
  explicit Groups(const KernelRequest& request) : from(request.inputs[0].shape) {
    const Shape kept = static_cast<const ops::ReduceOp&>(request.op).KeptShape(from);
    count = static_cast<size_t>(kept.elements());
    strides = ops::BroadcastStrides(kept, from);
  }
  // Calls f(element, its group).
  template <class F>
  void ForEachElement(F f) const {
    ForEach(from, [&](size_t i, const Index& at) { f(i, At(at, strides)); });
  }

  Shape from;
  size_t count = 0;
  std::vector<int64_t> strides;
};

// y = finish(fold of `step` over the elements along the op's axes), in double precision.
template <class Step, class Finish>
graph::KernelFactory Fold(double start, Step step, Finish finish) {
  return [=](const KernelRequest& request) {
    const Groups groups(request);
    return MakeScratchKernel(groups.count * sizeof(double), [=](const KernelArgs& args) {
      auto* sums = reinterpret_cast<double*>(args.scratch);
      std::fill_n(sums, groups.count, start);
      groups.ForEachElement(
          [&](size_t i, size_t j) { sums[j] = step(sums[j], static_cast<double>(In(args, 0)[i])); });
      for (size_t j = 0; j < groups.count; ++j) Out(args)[j] = static_cast<float>(finish(sums[j]));
    });
  };
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Itself(double x) {
  return x;
}

// Two numbers for each output: the largest element, and the sum relative to it.
std::unique_ptr<graph::Kernel> LogSumExpKernel(const KernelRequest& request) {
  const Groups groups(request);
  return MakeScratchKernel(2 * groups.count * sizeof(double), [groups](const KernelArgs& args) {
    const float* x = In(args, 0);
    auto* largest = reinterpret_cast<double*>(args.scratch);
    double* sums = largest + groups.count;
    std::fill_n(largest, groups.count, -kInfinity);
    std::fill_n(sums, groups.count, 0.0);
    groups.ForEachElement(
        [&](size_t i, size_t j) { largest[j] = std::max(largest[j], static_cast<double>(x[i])); });
    groups.ForEachElement([&](size_t i, size_t j) {
      // Do not subtract an infinite maximum, which would give NaN.
      sums[j] += std::exp(static_cast<double>(x[i]) - (std::isinf(largest[j]) ? 0 : largest[j]));
    });
    for (size_t j = 0; j < groups.count; ++j) {
      Out(args)[j] = static_cast<float>((std::isinf(largest[j]) ? 0 : largest[j]) + std::log(sums[j]));
    }
  });
}

// Two numbers for each group: the product of the nonzero elements, and the number of zeros.
std::unique_ptr<graph::Kernel> ProdOfOthersKernel(const KernelRequest& request) {
  const Groups groups(request);
  return MakeScratchKernel(2 * groups.count * sizeof(double), [groups](const KernelArgs& args) {
    const float* x = In(args, 0);
    auto* products = reinterpret_cast<double*>(args.scratch);
    double* zeros = products + groups.count;
    std::fill_n(products, groups.count, 1.0);
    std::fill_n(zeros, groups.count, 0.0);
    groups.ForEachElement([&](size_t i, size_t j) {
      if (x[i] == 0) zeros[j] += 1;
      if (x[i] != 0) products[j] *= static_cast<double>(x[i]);
    });
    groups.ForEachElement([&](size_t i, size_t j) {
      const double other_zeros = zeros[j] - (x[i] == 0 ? 1 : 0);
      const double others = x[i] == 0 ? products[j] : products[j] / static_cast<double>(x[i]);
      Out(args)[i] = other_zeros > 0 ? 0 : static_cast<float>(others);
    });
  });
}

// sign is 1 for the largest element and -1 for the smallest.
graph::KernelFactory ArgExtreme(float sign) {
  return [sign](const KernelRequest& request) {
    const auto& op = static_cast<const ops::ArgExtreme&>(request.op);
    const Shape& shape = request.inputs[0].shape;
    const ops::AxisView view = ops::ViewAlong(shape, ops::AxisOf(op.axis, shape.rank()));
    return WithIndexType(op.type, [&](auto index) {
      using T = decltype(index);
      return MakeKernel([view, sign](const KernelArgs& args) {
        T* y = reinterpret_cast<T*>(args.outputs[0]);
        for (int64_t o = 0; o < view.outer; ++o) {
          for (int64_t i = 0; i < view.inner; ++i) {
            const float* x = In(args, 0) + o * view.size * view.inner + i;
            int64_t best = 0;
            for (int64_t j = 1; j < view.size; ++j) {
              const float now = sign * x[j * view.inner], then = sign * x[best * view.inner];
              if (now > then || (std::isnan(then) && !std::isnan(now))) best = j;
            }
            *y++ = static_cast<T>(best);
          }
        }
      });
    });
  };
}

std::unique_ptr<graph::Kernel> CumSumKernel(const KernelRequest& request) {
  const auto& op = static_cast<const ops::CumSum&>(request.op);
  const Shape& shape = request.inputs[0].shape;
  const ops::AxisView view = ops::ViewAlong(shape, ops::AxisOf(op.axis, shape.rank()));
  return MakeKernel([view, exclusive = op.exclusive, reverse = op.reverse](const KernelArgs& args) {
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t i = 0; i < view.inner; ++i) {
        const int64_t first = o * view.size * view.inner + i;
        double sum = 0;
        for (int64_t j = 0; j < view.size; ++j) {
          const int64_t at = first + (reverse ? view.size - 1 - j : j) * view.inner;
          const auto x = static_cast<double>(In(args, 0)[at]);
          Out(args)[at] = static_cast<float>(exclusive ? sum : sum + x);
          sum += x;
        }
      }
    }
  });
}

}  // namespace

void AddShape(graph::KernelTable& table) {
  const auto largest = [](double a, double b) { return a > b || std::isnan(a) ? a : b; };
  const auto smallest = [](double a, double b) { return a < b || std::isnan(a) ? a : b; };
  table.Add("arg_max", ArgExtreme(1));
  table.Add("arg_min", ArgExtreme(-1));
  table.Add("broadcast_to", BroadcastToKernel);
  table.Add("concat", ConcatKernel);
  table.Add("cumsum", CumSumKernel);
  table.Add("log_sum_exp", LogSumExpKernel);
  table.Add("pad", PadKernel);
  table.Add("pad_grad", PadGradKernel);
  table.Add("prod_of_others", ProdOfOthersKernel);
  table.Add("reduce_l2",
            Fold(
                0, [](double sum, double x) { return sum + x * x; }, [](double x) { return std::sqrt(x); }));
  table.Add("reduce_max", Fold(-kInfinity, largest, Itself));
  table.Add("reduce_mean", Reduce<true>);
  table.Add("reduce_min", Fold(kInfinity, smallest, Itself));
  table.Add("reduce_prod", Fold(
                               1, [](double product, double x) { return product * x; }, Itself));
  table.Add("reduce_sum", Reduce<false>);
  table.Add("slice", SliceKernel);
  table.Add("slice_grad", SliceGradKernel);
  table.Add("split", SplitKernel);
  table.Add("sum_to", SumToKernel);
  table.Add("transpose", TransposeKernel);
}

}  // namespace leat::reference
