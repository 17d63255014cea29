#include "compute/ops/convolution/convolution.h"
#include "compute/kernels/reference/kernels.h"

namespace leat::reference {
namespace {

using ops::Conv2dSizes;

// Calls f(position in x, in w, in y) for each term of the sum in compute/ops/convolution/convolution.h.
template <class F>
void ForEachProduct(const Conv2dSizes& s, F f) {
  const ops::Window& window = s.window;
  const ops::Pair &kernel = window.kernel, &strides = window.strides, &dilations = window.dilations;
  const int64_t group_channels = s.channels / s.groups, group_filters = s.filters / s.groups;
  int64_t y = 0;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t oy = 0; oy < s.output.height; ++oy) {
      for (int64_t ox = 0; ox < s.output.width; ++ox) {
        for (int64_t o = 0; o < s.filters; ++o, ++y) {
          const int64_t first_channel = o / group_filters * group_channels;
          for (int64_t c = 0; c < group_channels; ++c) {
            for (int64_t ky = 0; ky < kernel.height; ++ky) {
              const int64_t iy = oy * strides.height + ky * dilations.height - window.padding.top;
              if (iy < 0 || iy >= s.input.height) continue;
              for (int64_t kx = 0; kx < kernel.width; ++kx) {
                const int64_t ix = ox * strides.width + kx * dilations.width - window.padding.left;
                if (ix < 0 || ix >= s.input.width) continue;
                const int64_t x =
                    ((n * s.input.height + iy) * s.input.width + ix) * s.channels + first_channel + c;
                f(x, ((o * group_channels + c) * kernel.height + ky) * kernel.width + kx, y);
              }
            }
          }
        }
      }
    }
  }
}

Conv2dSizes SizesOf(const KernelRequest& request) {
  return static_cast<const ops::ConvolutionOp&>(request.op).Sizes(request.inputs);
}

double ProductInDouble(float a, float b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

void Store(const double* sums, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(sums[i]);
}

std::unique_ptr<graph::Kernel> Conv2dKernel(const KernelRequest& request) {
  const Conv2dSizes s = SizesOf(request);
  return MakeSums(s.y.elements(), [s](const KernelArgs& args, double* sums) {
    const float *x = In(args, 0), *w = In(args, 1);
    ForEachProduct(s, [&](int64_t ix, int64_t iw, int64_t iy) { sums[iy] += ProductInDouble(x[ix], w[iw]); });
    Store(sums, s.y.elements(), Out(args));
  });
}

std::unique_ptr<graph::Kernel> Conv2dBiasKernel(const KernelRequest& request) {
  const Conv2dSizes s = SizesOf(request);
  const auto activation = static_cast<const ops::Conv2dBias&>(request.op).activation;
  return MakeSums(s.y.elements(), [s, activation](const KernelArgs& args, double* sums) {
    const float *x = In(args, 0), *w = In(args, 1), *bias = In(args, 2);
    ForEachProduct(s, [&](int64_t ix, int64_t iw, int64_t iy) { sums[iy] += ProductInDouble(x[ix], w[iw]); });
    for (int64_t i = 0; i < s.y.elements(); ++i) {
      Out(args)[i] =
          static_cast<float>(Activate(activation, sums[i] + static_cast<double>(bias[i % s.filters])));
    }
  });
}

std::unique_ptr<graph::Kernel> GradInputKernel(const KernelRequest& request) {
  const Conv2dSizes s = SizesOf(request);
  return MakeSums(s.x.elements(), [s](const KernelArgs& args, double* sums) {
    const float *y = In(args, 0), *w = In(args, 1);
    ForEachProduct(s, [&](int64_t ix, int64_t iw, int64_t iy) { sums[ix] += ProductInDouble(w[iw], y[iy]); });
    Store(sums, s.x.elements(), Out(args));
  });
}

// Also computes the bias gradient if there is a second output.
std::unique_ptr<graph::Kernel> GradWeightsKernel(const KernelRequest& request) {
  const Conv2dSizes s = SizesOf(request);
  const int64_t weights = s.w.elements(), biases = request.outputs.size() == 1 ? 0 : s.filters;
  return MakeSums(weights + biases, [=](const KernelArgs& args, double* sums) {
    const float *x = In(args, 0), *y = In(args, 1);
    ForEachProduct(s, [&](int64_t ix, int64_t iw, int64_t iy) { sums[iw] += ProductInDouble(x[ix], y[iy]); });
    Store(sums, weights, Out(args));
    if (biases == 0) return;
    for (int64_t i = 0; i < s.y.elements(); ++i) sums[weights + i % biases] += static_cast<double>(y[i]);
    Store(sums + weights, biases, Out(args, 1));
  });
}

}  // namespace

void AddConvolution(graph::KernelTable& table) {
  table.Add("conv2d", Widened(Conv2dKernel));
  table.Add("conv2d_bias", Widened(Conv2dBiasKernel));
  table.Add("conv2d_grad_input", Widened(GradInputKernel));
  table.Add("conv2d_grad_weights", Widened(GradWeightsKernel));
  table.Add("conv2d_grad_weights_bias", Widened(GradWeightsKernel));
}

}  // namespace leat::reference
