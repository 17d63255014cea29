#include "compute/ops/convolution/window.h"

#include <limits>
#include <stdexcept>

namespace leat::ops {
namespace {

// Attributes up to this, with sizes of up to 2^40, cannot make a sum or product here overflow.
constexpr int64_t kMax = std::numeric_limits<int32_t>::max();

std::string PaddingText(const Padding& p) {
  return std::to_string(p.top) + "," + std::to_string(p.left) + "," + std::to_string(p.bottom) + "," +
         std::to_string(p.right);
}

void CheckPair(std::string_view what, const Pair& pair) {
  for (const int64_t size : {pair.height, pair.width}) {
    if (size >= 1 && size <= kMax) continue;
    throw std::invalid_argument(std::string(what) + " " + ToString(pair) + ": must be between 1 and " +
                                std::to_string(kMax));
  }
}

void CheckPadding(const Padding& p) {
  for (const int64_t size : {p.top, p.left, p.bottom, p.right}) {
    if (size >= 0 && size <= kMax) continue;
    throw std::invalid_argument("padding " + PaddingText(p) + ": must be between 0 and " +
                                std::to_string(kMax));
  }
}

}  // namespace

std::string ToString(const Pair& pair) {
  return std::to_string(pair.height) + "x" + std::to_string(pair.width);
}

Pair Window::Extent() const {
  return {(kernel.height - 1) * dilations.height + 1, (kernel.width - 1) * dilations.width + 1};
}

Pair CountWindows(const Window& window, const Pair& image) {
  CheckPair("kernel", window.kernel);
  CheckPair("strides", window.strides);
  CheckPair("dilations", window.dilations);
  const Padding& p = window.padding;
  CheckPadding(p);
  const Pair extent = window.Extent();
  const int64_t height = image.height + p.top + p.bottom, width = image.width + p.left + p.right;
  if (extent.height > height || extent.width > width) {
    std::string text = "kernel " + ToString(window.kernel);
    if (extent != window.kernel) text += " dilated to " + ToString(extent);
    text += " is larger than input " + ToString(image);
    throw std::invalid_argument(p == Padding{} ? text : text + " with padding " + PaddingText(p));
  }
  return {(height - extent.height) / window.strides.height + 1,
          (width - extent.width) / window.strides.width + 1};
}

void CheckImages(std::string_view what, const Shape& shape) {
  if (shape.rank() == 4) return;
  throw std::invalid_argument(std::string(what) + shape.ToString() +
                              ": must be [batch, height, width, channels]");
}

Pair ImageSize(const Shape& shape) {
  return {shape[1], shape[2]};
}

std::string WindowAttributes(const Window& window) {
  std::string text;
  if (window.strides != Pair{}) text += " strides=" + ToString(window.strides);
  if (window.dilations != Pair{}) text += " dilations=" + ToString(window.dilations);
  if (window.padding != Padding{}) text += " padding=" + PaddingText(window.padding);
  return text;
}

}  // namespace leat::ops
