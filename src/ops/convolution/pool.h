// What the pools share: windows over each channel of an image by itself.
#pragma once

#include "ops/convolution/window.h"

namespace leat::ops {

struct PoolAttributes {
  Pair kernel;
  Pair strides;
  Padding padding;
};

// The shape of what comes out of images x[n, h, w, c]. Throws std::invalid_argument with the sizes that do
// not fit, and on a padding that is not smaller than the kernel: every window has an element of the image.
Shape PooledShape(const PoolAttributes& attributes, const Shape& x);
// The other way: images of size `input`, whose windows y[n, oh, ow, c] has to have a value for.
Shape UnpooledShape(const PoolAttributes& attributes, const Shape& y, const Pair& input);
// "kernel=2x2 strides=2x2"
std::string ToString(const PoolAttributes& attributes);
// Operations of one pass over all windows.
double PoolFlops(const PoolAttributes& attributes, const Shape& y);

}  // namespace leat::ops
