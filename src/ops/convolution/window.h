// How windows lie over the height and width of images: what convolutions and pools share.
//
// All arithmetic is checked: attributes may come from files.
#pragma once

#include "ops/op.h"

namespace leat::ops {

struct Pair {
  int64_t height = 1;
  int64_t width = 1;
  friend bool operator==(const Pair&, const Pair&) = default;
};
// "3x5"
std::string ToString(const Pair& pair);

// Rows and columns that are thought around an image.
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

  // Rows and columns from a window's first element to its last, both counted. Of a window that was checked.
  Pair Extent() const;
};

// How many windows there are over an image of that size. Throws std::invalid_argument on a kernel, stride or
// dilation below 1, a negative padding, any of them from 2^31 on, and on a kernel that is larger than the
// padded image.
Pair CountWindows(const Window& window, const Pair& image);

// [batch, height, width, channels], or throws naming `what`.
void CheckImages(std::string_view what, const Shape& shape);
Pair ImageSize(const Shape& shape);

// " strides=2x2 dilations=1x1 padding=1,1,1,1" without what is as usual.
std::string WindowAttributes(const Window& window);

}  // namespace leat::ops
