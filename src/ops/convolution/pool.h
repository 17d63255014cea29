// Attributes and shape rules of the pooling ops, which process each channel of an image separately.
#pragma once

#include "ops/convolution/window.h"

namespace leat::ops {

struct PoolAttributes {
  Pair kernel;
  Pair strides;
  Padding padding;
};

// The output shape for images x[n, h, w, c]. Throws std::invalid_argument with the sizes that do not match.
// The padding must be smaller than the kernel, so that every window contains an element of the image.
Shape PooledShape(const PoolAttributes& attributes, const Shape& x);
// The reverse: the shape of images of size `input` that are pooled to y[n, oh, ow, c]. Throws as above.
Shape UnpooledShape(const PoolAttributes& attributes, const Shape& y, const Pair& input);
// "kernel=2x2 strides=2x2"
std::string ToString(const PoolAttributes& attributes);
// Arithmetic operations of one pass over all windows.
double PoolFlops(const PoolAttributes& attributes, const Shape& y);

}  // namespace leat::ops
