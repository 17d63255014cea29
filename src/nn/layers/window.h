// Settings of layers that move windows over images: convolutions and pools.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "nn/layer.h"
#include "nn/layers/settings.h"
#include "ops/convolution/window.h"

namespace leat::nn {

// The row as [height, width, channels]; fails on another.
Shape ReadImage(const LayerRequest& request);

// A number for both axes, or [height, width], each at least `least`.
ops::Pair ReadPair(const Config& settings, std::string_view key, ops::Pair fallback, int64_t least = 1);
// `kernel:` or the like, which has to be there.
ops::Pair ReadPair(const Config& settings, std::string_view key);

// `padding:` of windows over an image: valid (none, the default), same (as many windows as strides fit into
// the image), a number, [height, width] or [top, left, bottom, right]. `extent` is what a window reaches
// over.
ops::Padding ReadPadding(const Config& settings, const ops::Pair& image, const ops::Pair& extent,
                         const ops::Pair& strides);
// Whether `padding:` is the word `same`.
bool IsSamePadding(const Config& settings);
// So many rows and columns, shared out between the sides; an odd one stands below and to the right.
ops::Padding Around(const ops::Pair& total);

// Calls f, and fails with layer and line where it throws std::invalid_argument.
template <class F>
auto Checked(const LayerRequest& request, F f) {
  try {
    return f();
  } catch (const std::invalid_argument& error) {
    request.settings.Fail("layer " + request.name + ": " + error.what());
  }
}

}  // namespace leat::nn
