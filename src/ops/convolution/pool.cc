#include "ops/convolution/pool.h"

#include <limits>
#include <stdexcept>

namespace leat::ops {
namespace {

Window PoolWindow(const PoolAttributes& a) {
  return {.kernel = a.kernel, .strides = a.strides, .dilations = {}, .padding = a.padding};
}

}  // namespace

Shape PooledShape(const PoolAttributes& a, const Shape& x) {
  CheckImages("x", x);
  const Pair input = ImageSize(x), output = CountWindows(PoolWindow(a), input);
  const Padding& p = a.padding;
  if (p.top >= a.kernel.height || p.bottom >= a.kernel.height || p.left >= a.kernel.width ||
      p.right >= a.kernel.width) {
    throw std::invalid_argument("kernel " + ToString(a.kernel) + " with" + WindowAttributes(PoolWindow(a)) +
                                ": the padding must be smaller than the kernel");
  }
  if (input.height == 0 || input.width == 0) {
    throw std::invalid_argument("x" + x.ToString() + ": the image is empty");
  }
  // Indices of elements in a window have 32 bits.
  if (a.kernel.height > std::numeric_limits<int32_t>::max() / a.kernel.width) {
    throw std::invalid_argument("kernel " + ToString(a.kernel) + " has more than 2^31 elements");
  }
  return {x[0], output.height, output.width, x[3]};
}

Shape UnpooledShape(const PoolAttributes& a, const Shape& y, const Pair& input) {
  CheckImages("y", y);
  const Shape x{y[0], input.height, input.width, y[3]};
  const Shape pooled = PooledShape(a, x);
  if (pooled == y) return x;
  throw std::invalid_argument("y" + y.ToString() + ": must be " + pooled.ToString() + " for input " +
                              ToString(input));
}

std::string ToString(const PoolAttributes& a) {
  return "kernel=" + ToString(a.kernel) + WindowAttributes(PoolWindow(a));
}

double PoolFlops(const PoolAttributes& a, const Shape& y) {
  return static_cast<double>(y.elements()) * static_cast<double>(a.kernel.height) *
         static_cast<double>(a.kernel.width);
}

}  // namespace leat::ops
