// Window geometry over the height and width of images, shared by convolutions and pools.
//
// All arithmetic is checked for overflow, since attributes may come from files.
#pragma once

#include "compute/ops/op.h"

namespace leat::ops {

struct Pair {
  int64_t height = 1;
  int64_t width = 1;
  friend bool operator==(const Pair&, const Pair&) = default;
};
// "3x5"
std::string ToString(const Pair& pair);

// Rows and columns added around an image.
struct Padding {
  int64_t top = 0;
  int64_t left = 0;
  int64_t bottom = 0;
  int64_t right = 0;
  friend bool operator==(const Padding&, const Padding&) = default;
};

struct Window {
  Pair kernel;     // elements that one window reads
  Pair strides;    // from one window to the next
  Pair dilations;  // from one element of a window to the next
  Padding padding;

  // The dilated kernel: rows and columns from the window's first element to its last, inclusive. Only valid
  // after CountWindows has checked the window.
  Pair Extent() const;
};

// The number of windows over an image of that size. Throws std::invalid_argument if a kernel, stride or
// dilation is below 1, a padding is negative, any of them is 2^31 or more, or the kernel is larger than the
// padded image.
Pair CountWindows(const Window& window, const Pair& image);

// Throws std::invalid_argument, with the name `what`, unless `shape` is [batch, height, width, channels].
void CheckImages(std::string_view what, const Shape& shape);
Pair ImageSize(const Shape& shape);

// " strides=2x2 dilations=1x1 padding=1,1,1,1", without default values.
std::string WindowAttributes(const Window& window);

}  // namespace leat::ops
